"""What `make docs` makes of the pages: the navigation, and lists as Python-Markdown reads them."""

from __future__ import annotations

from tests.docs.blocks import ROOT
from tools import docs_site, reference_markdown


def _pages(navigation) -> list[str]:
    if isinstance(navigation, str):
        return [navigation]
    entries = navigation.values() if isinstance(navigation, dict) else navigation
    return [page for entry in entries for page in _pages(entry)]


def test_the_navigation_has_each_page_once():
    docs = ROOT / "docs"
    listed = _pages(docs_site.navigation(docs))
    assert sorted(listed) == sorted(path.relative_to(docs).as_posix() for path in docs.rglob("*.md"))


def test_the_navigation_has_the_groups_of_the_list_of_pages():
    top = docs_site.navigation(ROOT / "docs")
    sections = {name: entries for entry in top if isinstance(entry, dict) for name, entries in entry.items()}
    assert list(sections) == ["How-to", "Reference", "Explanation"]
    assert [name for group in sections["How-to"] for name in group] == [
        "Ingest",
        "Pipelines",
        "Formats",
        "Tables",
        "Operate",
        "Extend",
    ]
    assert [name for group in sections["Explanation"] if isinstance(group, dict) for name in group] == [
        "Formats",
        "Tables",
        "Engine",
        "Decisions",
    ]


def test_inner_lines_of_lists_are_four_spaces_in():
    written = (
        "Text\n  goes on.\n\n- An item\n  goes on:\n\n  ```bash\n  for x in 1; do\n    echo\n  done\n  ```\n\n"
        "  Its end.\n  - inner\n\nText.\n\n```python\nif x:\n  y\n```\n\n1. One\n   more\n"
    )
    assert docs_site.four_spaces(written) == (
        "Text\n  goes on.\n\n- An item\n    goes on:\n\n"
        "    ```bash\n    for x in 1; do\n      echo\n    done\n    ```\n\n"
        "    Its end.\n    - inner\n\nText.\n\n```python\nif x:\n  y\n```\n\n1. One\n    more\n"
    )


def test_headings_have_the_anchors_of_the_reference_pages():
    for heading in ("What JSON is, and what is refused", "`format: json`", "1. A broker", "A_b-c (d)"):
        assert docs_site.slug(heading) == reference_markdown.slug(heading)
