"""The reference pages are what the classes say."""

from __future__ import annotations

import pytest
from tools import docs_reference

from rivermouth import errors


@pytest.mark.parametrize("name", docs_reference.PAGES)
def test_reference_page_is_current(name):
    committed = (docs_reference.FOLDER / name).read_text("utf-8")
    assert committed == docs_reference.page(name), "python tools/docs_reference.py"


def test_every_error_has_a_code_of_its_own_and_a_meaning():
    classes = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, errors.RivermouthError)
    ]
    raised = [cls for cls in classes if cls not in (errors.RivermouthError, errors.ProjectProblems)]
    codes = [cls.code for cls in raised]
    assert len(set(codes)) == len(codes) > 0
    assert [cls.__name__ for cls in raised if not cls.__doc__] == []
    page = docs_reference.error_page()
    assert [cls.__name__ for cls in raised if f": {cls.__name__}\n" not in page] == []
