"""Whether two values are equal, of types that Spark does not compare."""

from pyspark.sql import types as T

from rivermouth.rows.keyed.compared_rows import alike

PAIRS = [
    ("int", "1", "1", True),
    ("int", "NULL", "1", False),
    ("map<string, int>", "map('a', 1, 'b', 2)", "map('b', 2, 'a', 1)", True),
    ("map<string, int>", "map('a', 1)", "map('a', 2)", False),
    ("map<string, int>", "map('a', 1)", "map('a', NULL)", False),
    ("map<string, int>", "map()", "NULL", False),
    ("variant", 'parse_json(\'{"a": 1, "b": [2]}\')', 'parse_json(\'{"b": [2], "a": 1}\')', True),
    ("variant", "parse_json('1')", "parse_json('\"1\"')", False),
    ("variant", "parse_json('null')", "NULL", False),
    (
        "struct<`a b`: map<int, map<int, int>>>",
        "struct(map(1, map(2, 3, 4, 5)))",
        "struct(map(1, map(4, 5, 2, 3)))",
        True,
    ),
    ("struct<m: map<int, int>>", "struct(NULL)", "NULL", False),
    ("array<struct<v: variant>>", "array(struct(parse_json('1')))", "array(struct(parse_json('2')))", False),
]


def test_maps_and_variants_are_compared_by_what_they_hold(spark):
    columns = []
    for number, (kind, one, other, _) in enumerate(PAIRS):
        columns += [f"CAST({text} AS {kind}) AS {name}{number}" for name, text in (("a", one), ("b", other))]
    tests = [
        alike(f"a{number}", f"b{number}", T._parse_datatype_string(kind)) for number, (kind, *_) in enumerate(PAIRS)
    ]
    (found,) = spark.range(1).selectExpr(*columns).selectExpr(*tests).collect()
    assert list(found) == [equal for *_, equal in PAIRS]
