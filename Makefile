# The doors for developers. `make` alone lists them.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
# An installed uv is used as it is; else one from PyPI is put into .tools.
UV := $(or $(shell command -v uv 2>/dev/null),.tools/bin/uv)
BIN := .venv/bin
# Tests and benches import the same modules in many processes: what Python compiles of them is kept, also where the shell
# says no. An installation has it, too.
KEEPS_BYTECODE := env -u PYTHONDONTWRITEBYTECODE
# Processes for the tests beside this one, each with a Spark and a broker of its own; 0: this one alone, as for a part.
# Three keep two cores busy. Long tests start more processes of their own.
WORKERS ?= $(if $(PYTEST),0,3)
LONG_WORKERS ?= $(if $(PYTEST),0,2)

.PHONY: help setup demo test long crashes databases audit check format lock docs bench clean always

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: src/rivermouth/ports/rivermouth.jar ## Bring uv, the locked environment, the jars and, if need be, Java; compile src/java

demo: setup ## Carry a topic of a broker of its own into a table, and show it
	$(BIN)/rivermouth demo

test: setup .venv/.classes ## Run the tests; CHANGED=origin/main: those that a change reaches
	$(KEEPS_BYTECODE) $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup $(PYTEST) $(if $(CHANGED),$$($(BIN)/python -m tools.changed_tests $(CHANGED)))

long: setup .venv/.classes ## Run the tests that take too long for that: more of the pages, more of the crashes; PART=1/8
	$(KEEPS_BYTECODE) $(BIN)/python -m pytest -n $(LONG_WORKERS) --dist loadgroup -m long $(if $(PART),--part $(PART)) $(PYTEST)

crashes: setup .venv/.classes ## Run all tests that kill and damage, in every combination
	$(KEEPS_BYTECODE) $(BIN)/python -m pytest -n $(LONG_WORKERS) --dist loadgroup -m "long or not long" tests/crashes $(PYTEST)

databases: tests/kinesis/node_modules ## Install the servers that some tests read, where they are missing (Debian; as root)
	@PATH="$$PATH:/usr/sbin:$$(echo /usr/lib/postgresql/*/bin | tr ' ' ':')"; \
	if command -v initdb >/dev/null && command -v mariadbd >/dev/null; then exit 0; fi; \
	apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends postgresql mariadb-server

tests/kinesis/node_modules: tests/kinesis/package-lock.json
	@command -v npm >/dev/null || { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends nodejs npm; }
	npm ci --prefix tests/kinesis --ignore-scripts --no-audit --no-fund
	@touch $@

audit: setup .venv/.classes ## Inject faults and count what is lost or doubled; AUDIT="--records 1000000"
	$(BIN)/python -m tests.audit $(AUDIT)

check: setup ## Everything but the tests: style, types, floors, lock
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.import_circles
	$(BIN)/python -m tools.spark_internals
	$(BIN)/python -m tools.sizes
	$(BIN)/python tools/docs_reference.py --check
	$(UV) lock --check

format: setup ## Write what the formatter and the linter can mend by themselves
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

lock: setup ## Lock the newest versions that pyproject.toml allows
	$(UV) lock --upgrade

docs: .venv-docs/.locked ## Render the documentation into site/, with all links checked
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict
	@echo "open site/index.html"

bench: setup .venv/.classes ## Measure rows per second on this machine
	$(KEEPS_BYTECODE) $(BIN)/python -m bench $(BENCH)

clean: ## Remove what was made here; downloaded jars stay in the user's cache
	rm -rf .venv .venv-docs site .tools .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

# pip first: it works without ensurepip, which some distributions leave out of Python.
.tools/bin/uv:
	@echo "fetching uv"
	@if $(PYTHON) -m pip --version >/dev/null 2>&1; then \
	  $(PYTHON) -m pip install --quiet --disable-pip-version-check --target .tools --upgrade uv; \
	elif $(PYTHON) -m venv .tools >/dev/null 2>&1; then \
	  .tools/bin/python -m pip install --quiet --disable-pip-version-check uv; \
	else \
	  echo "$(PYTHON) has neither pip nor venv: install one of them, or uv" >&2; exit 1; \
	fi

# Bytecode once: where Python keeps none, every process would compile PySpark and pandas again, for 3 s. src/java is not
# compiled by the hook of the build, which would need an environment of its own, but below.
.venv/.locked: pyproject.toml uv.lock $(if $(findstring .tools,$(UV)),| $(UV))
	HATCH_BUILD_NO_HOOKS=true $(UV) sync --locked --all-extras --compile-bytecode
	@touch $@

# An environment without the package: what renders pages is in no other one.
.venv-docs/.locked: pyproject.toml uv.lock $(if $(findstring .tools,$(UV)),| $(UV))
	UV_PROJECT_ENVIRONMENT=.venv-docs $(UV) sync --locked --only-group docs
	@touch $@

.venv/.jars: .venv/.locked src/rivermouth/ports/jars.lock.json
	$(BIN)/rivermouth jars fetch
	$(BIN)/python -m rivermouth.ports.java
	@touch $@

# Nothing is done where the jar has the hash of the sources, whatever the times of the files are.
src/rivermouth/ports/rivermouth.jar: .venv/.jars always
	@$(BIN)/python -m tools.java_sources || $(BIN)/python -m tools.build_jar

# Spark's JVM starts in less time with it, and the tests start it often. Not every Java makes one; tests run without it.
.venv/.classes: .venv/.jars src/rivermouth/ports/rivermouth.jar
	@told=$$($(BIN)/rivermouth jars archive 2>&1) || \
	case "$$told" in *CLASSES_NOT_ARCHIVED*) ;; *) echo "$$told" >&2; exit 1;; esac; \
	echo "$$told"
	@touch $@
