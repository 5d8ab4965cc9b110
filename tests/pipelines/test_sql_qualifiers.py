"""Conditions that name tables are conditions on columns."""

from __future__ import annotations

import pytest

from rivermouth.pipelines.spec import SourceLine
from rivermouth.pipelines.sql.qualifiers import without_qualifiers

AT = SourceLine("books.sql", 3)
QUALIFIED = {"b": {"book"}, "c": {"price", "book_id"}, "o": {"total", "c"}}


@pytest.mark.parametrize(
    ("condition", "columns", "wanted"),
    [
        ("b.book.subtotal = b.book.quantity * c.price", {"book", "price"}, "book.subtotal = book.quantity * price"),
        ("total > 0", {"total"}, "total > 0"),
        ("book.subtotal > 0", {"book"}, "book.subtotal > 0"),
        ("c.price > 0", {"c", "price"}, "c.price > 0"),
        ("o.c.price > 0", {"c", "total"}, "c.price > 0"),
        ("`C`.`Price` > 0 AND x.price > 0", {"price"}, "`Price` > 0 AND x.price > 0"),
        ("c.name = 'c.price' -- c.price", {"name"}, "c.name = 'c.price' -- c.price"),
        ("c . price IS NOT NULL", {"price"}, "price IS NOT NULL"),
        ("1.5 < c.price", {"price"}, "1.5 < price"),
        ("c", {"c"}, "c"),
    ],
)
def test_the_name_of_a_table_is_left_out(condition, columns, wanted):
    assert without_qualifiers(condition, columns, QUALIFIED, AT) == wanted
