"""``python -m bench``: a broker, the data, the contestants in turns, the tables."""

from __future__ import annotations

import argparse
import shlex
import shutil
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from bench import report
from bench.format_group import formats, inference, wide
from bench.groups import Bench, Sizes
from bench.pipelines_group import pipelines
from bench.results import Results
from bench.routing_group import routing
from bench.streams_group import streams
from bench.upsert_group import upserts
from rivermouth.ports.dev.broker import Broker

GROUPS = (
    "bronze",
    "json",
    "formats",
    "wide",
    "inference",
    "routing",
    "small",
    "upserts",
    "pipelines",
    "streams",
    "memory",
)
FUNCTIONS = {
    "formats": formats,
    "wide": wide,
    "inference": inference,
    "routing": routing,
    "upserts": upserts,
    "pipelines": pipelines,
    "streams": streams,
}
PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"

QUICK = Sizes(
    bronze=4_000,
    json=4_000,
    inference=4_000,
    warm_up=0,
    repetitions=1,
    looks=4,
    hundreds=2,
    hundreds_warm_up=1,
    latency_s=3.0,
    memory=20_000,
    upsert_rows=4_000,
    upsert_small_rows=2_000,
    upsert_batch=100,
    upsert_batches=3,
    upsert_usual_batches=1,
    pipeline_updates=1,
    streams=4_000,
    lookups=4_000,
    window_keys=2_000,
    stream_latency_s=2.0,
    read_batches=3,
    read_batch=100,
    own_processes=False,
)


def main(arguments: list[str]) -> int:
    """Runs what was asked for and prints the tables; 1 if a contestant's tables were wrong."""
    options = _parser().parse_args(arguments)
    # A service manager's polite end: the workers and the broker end too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    started = time.monotonic()
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="rivermouth-bench-", dir=options.folder))
    results = Results(command=shlex.join(["python", "-m", "bench", *arguments]))
    try:
        with Broker.start(data_dir=folder / "broker") as broker, ExitStack() as shared:
            bench = Bench(broker.bootstrap_servers, folder / "contestants", _sizes(options), _say, shared)
            for group in _groups(options):
                _say(f"{group}:")
                if group in {"bronze", "json"}:
                    results.backlogs += getattr(bench, group)()
                elif group in FUNCTIONS:
                    setattr(results, group, FUNCTIONS[group](bench))
                else:
                    setattr(results, group, getattr(bench, group)())
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    print(report.text(results))
    _say(f"all of it took {(time.monotonic() - started) / 60:.1f} minutes")
    if options.json:
        options.json.write_text(results.to_json())
    if options.write_docs:
        report.write_docs(PAGE, results)
    return 0


def _sizes(options: argparse.Namespace) -> Sizes:
    if options.quick:
        return QUICK
    return Sizes(
        bronze=options.records,
        json=options.records // 4,
        inference=options.inference_records,
        warm_up=min(2_000_000, options.records),
        repetitions=options.repetitions,
        memory=options.memory_records,
        upsert_rows=options.upsert_rows,
        upsert_small_rows=options.upsert_rows // 10,
        streams=options.records // 3,
        lookups=options.lookup_records,
        window_keys=options.window_keys,
    )


def _groups(options: argparse.Namespace) -> list[str]:
    if options.only:
        return list(options.only)
    return [group for group in GROUPS if group != "memory" or options.memory]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--records", type=int, default=6_000_000, help="bronze records; JSON takes a quarter")
    parser.add_argument(
        "--inference-records", type=int, default=4_000_000, help="of the topic whose schema is inferred"
    )
    parser.add_argument("--repetitions", type=int, default=3, help="timed runs of each contestant")
    parser.add_argument("--memory", action="store_true", help="drain 10 million records too")
    parser.add_argument("--memory-records", type=int, default=10_000_000)
    parser.add_argument("--upsert-rows", type=int, default=10_000_000, help="rows of the table of the upserts")
    parser.add_argument("--lookup-records", type=int, default=2_000_000, help="for which a flow looks up columns")
    parser.add_argument("--window-keys", type=int, default=1_000_000, help="of windowed state")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it all run, are the rows right")
    parser.add_argument("--only", nargs="+", choices=GROUPS, help="these groups alone")
    parser.add_argument("--write-docs", action="store_true", help="put the tables into docs/benchmarks.md")
    parser.add_argument("--json", type=Path, help="write every single run there")
    parser.add_argument("--folder", type=Path, help="where the data go meanwhile; some 8 GB")
    parser.add_argument("--keep", action="store_true", help="leave that folder, with the workers' logs")
    return parser


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
