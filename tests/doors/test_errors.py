"""Every error that is raised on purpose has its whole text somewhere among the tests."""

from __future__ import annotations

from pathlib import Path

from rivermouth import errors
from rivermouth.errors import RivermouthError

TESTS = Path(__file__).parents[1]


def test_the_text_of_every_error_is_in_some_test():
    classes = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, RivermouthError)]
    codes = {each.code for each in classes} - {RivermouthError.code}
    assert len(codes) > 100
    files = [path for pattern in ("*.py", "*.txt") for path in TESTS.rglob(pattern)]
    texts = "\n".join(path.read_text(errors="replace") for path in files)
    assert sorted(code for code in codes if f"[{code}] " not in texts) == []
