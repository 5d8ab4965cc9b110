"""Timestamps and dates of JSON in a form of the user's: what fits, what is refused, and which forms are."""

from __future__ import annotations

import datetime as dt

import pytest
from pydantic import ValidationError
from pyspark.sql import types as T
from tests.plans import plan_text
from tests.rows.formats import Outcome, frame, of_several, outcomes

from rivermouth.decoding.times import datetime_pattern
from rivermouth.formats.json import Json
from rivermouth.spec import Evolution

SCHEMA = "at timestamp, day date, local timestamp_ntz, s struct<at:timestamp>, m map<string,array<date>>"
AT = dt.datetime(2026, 1, 31, 10, 11, 12)


def test_each_column_is_read_by_its_pattern(spark):
    form = Json(schema=SCHEMA, timestamp_format="dd/MM/yyyy HH:mm:ss", date_format="dd.MM.yy")
    form.columns(spark)
    at = '"31/01/2026 10:11:12"'
    values = {
        f'{{"at":{at},"local":{at},"s":{{"at":{at}}},"day":"31.01.26","m":{{"k":["01.02.03",null]}}}}': None,
        '{"at":null}': None,
        '{"at":"30/02/2026 10:11:12"}': "at",
        '{"at":"31/01/2026 24:00:00"}': "at",
        '{"at":"31/01/2026 10:11:12 "}': "at",
        '{"at":"31/01/+12026 10:11:12"}': "at",
        '{"at":"31/01/0000 10:11:12"}': "at",
        '{"at":"2026-01-31T10:11:12Z"}': "at",
        '{"at":1769860800}': "at",
        '{"at":{}}': "at",
        '{"at":""}': "at",
        '{"s":{"at":"31-01-2026 10:11:12"}}': "s.at",
        '{"day":"31.04.26"}': "day",
        '{"day":"2026-01-31"}': "day",
        '{"m":{"k":["31.04.26"]}}': "m[][]",
    }
    found = outcomes(spark, form, [value.encode() for value in values])
    assert found[0].data == {
        "at": AT,
        "local": AT,
        "s": {"at": AT},
        "day": AT.date(),
        "m": {"k": [dt.date(2003, 2, 1), None]},
    }
    assert set(found[1].data.values()) == {None}
    assert [(each.reason, each.field) for each in found[2:]] == [("FIELD_TYPE", field) for field in values.values()][2:]
    assert found[2].message == "field at is declared timestamp and holds a string that does not fit its format"


def test_epochs_are_whole_numbers_in_the_years_that_there_are(spark):
    cases = {
        ("epoch_s", "1769854272"): AT,
        ("epoch_ms", "1769854272005"): AT.replace(microsecond=5000),
        ("epoch_us", "1769854272000005"): AT.replace(microsecond=5),
        ("epoch_s", "-1"): dt.datetime(1969, 12, 31, 23, 59, 59),
        ("epoch_s", "253402300799"): dt.datetime(9999, 12, 31, 23, 59, 59),
        ("epoch_s", "253402300800"): "a number beyond the years 1 to 9999",
        ("epoch_ms", "-62135596800001"): "a number beyond the years 1 to 9999",
        ("epoch_us", "9223372036854775807"): "a number beyond the years 1 to 9999",
        ("epoch_us", "9223372036854775808"): "a whole number beyond its range",
        ("epoch_s", "1.0"): "a number with a fraction or an exponent",
        ("epoch_s", '"1769854272"'): "a string",
        ("epoch_s", '"2026-01-31T10:11:12Z"'): "a string",
    }
    forms = {word: Json(schema="at timestamp", timestamp_format=word) for word, _ in cases}
    found = of_several(spark, [(forms[word], f'{{"at":{text}}}'.encode()) for word, text in cases])
    assert found == [
        Outcome(None, "FIELD_TYPE", "at", f"field at is declared timestamp and holds {wanted}")
        if isinstance(wanted, str)
        else Outcome({"at": wanted})
        for wanted in cases.values()
    ]


def test_patterns_of_other_systems(spark):
    cases = {
        ("dd/MMM/yyyy:HH:mm:ss Z", "31/Jan/2026:12:11:12 +0200"): AT,
        ("yyyy-MM-dd'T'HH:mm:ss[.SSSSSSSSS]XXX", "2026-01-31T10:11:12Z"): AT,
        ("yyyy-MM-dd'T'HH:mm:ss[.SSSSSSSSS]XXX", "2026-01-31T10:11:12.123456789+00:00"): AT.replace(microsecond=123456),
        ("M/d/yyyy h:mm:ss a", "1/31/2026 10:11:12 am"): AT,
        ("yyyyMMddHHmmss", "20260131101112"): AT,
        ("yyyyMMdd", "20260131"): AT.replace(hour=0, minute=0, second=0),
        ("yyyy-DDD'T'HH:mm:ss", "2026-031T10:11:12"): AT,
        ("yyyy-MM-dd HH:mm:ss 'UTC'", "2026-01-31 10:11:12 UTC"): AT,
    }
    forms = {pattern: Json(schema="at timestamp", timestamp_format=pattern) for pattern, _ in cases}
    values = [(forms[pattern], f'{{"at":"{text}"}}'.encode()) for pattern, text in cases]
    # The digits of a whole number are a text as well.
    found = of_several(spark, [*values, (forms["yyyyMMdd"], b'{"at":20260131}')])
    midnight = cases["yyyyMMdd", "20260131"]
    assert [each.data for each in found] == [{"at": wanted} for wanted in [*cases.values(), midnight]]


@pytest.mark.parametrize(
    ("form", "texts"),
    [
        pytest.param("dd.MM.yyyy", ['"2026-01-31"'], marks=pytest.mark.long),
        ("epoch_s", ['"x"', "253402300800"]),
    ],
)
def test_a_misfit_is_rescued_where_a_policy_says_so(spark, form, texts):
    policies = Evolution(on_type_change="rescue").with_defaults(infers=False)
    json = Json(schema="id int, at timestamp", timestamp_format=form).with_policies(policies)
    found = outcomes(spark, json, [f'{{"id":1,"at":{text}}}'.encode() for text in texts])
    assert found == [Outcome({"id": 1, "at": None, "_rescued": f'{{"/at":{text}}}'}) for text in texts]


def test_arrays_of_rows_are_read_by_the_same_form(spark):
    form = Json(schema="day date", date_format="dd.MM.yyyy").as_array()
    found = outcomes(spark, form, [b'[{"day":"31.01.2026"}]', b'[{"day":"2026-01-31"}]'])
    assert [each.data for each in found] == [{"rows": [{"day": dt.date(2026, 1, 31)}]}, None]


def test_hinted_columns_are_read_by_the_form_and_others_stay_as_they_are_inferred(spark):
    form = Json(schema="infer", schema_hints="at timestamp", timestamp_format="dd.MM.yyyy")
    kept = form.with_schema(T.StructType.fromDDL("at string, note string"))
    kept.columns(spark)
    [found] = outcomes(spark, kept, [b'{"at":"31.01.2026","note":"2026-01-31"}'])
    assert found.data == {"at": dt.datetime(2026, 1, 31), "note": "2026-01-31"}


def test_without_a_form_nothing_is_planned_for_it(spark):
    plain = plan_text(Json(schema=SCHEMA).decode(frame(spark, [])), "optimizedPlan")
    assert "try_to_timestamp" not in plain
    assert "gettimestamp" not in plain.lower()
    formed = Json(schema="at timestamp", timestamp_format="dd.MM.yyyy").decode(frame(spark, []))
    assert plan_text(formed, "optimizedPlan").lower().count("gettimestamp") == 1


UNFIT = [
    (
        {"schema": "id int", "timestamp_format": "dd.MM.yyyy"},
        "timestamp_format is about timestamps, and no column is one: declare one, or leave it out",
    ),
    (
        {"schema": "at timestamp", "date_format": "dd.MM.yyyy"},
        "date_format is about dates, and no column is one: declare one, or leave it out",
    ),
    (
        {"schema": "s struct<at:array<timestamp_ntz>>", "timestamp_format": "dd.MM.yyyy XXX"},
        "column s.at[] is timestamp_ntz, and timestamp_format has instants: declare it timestamp",
    ),
    (
        {"schema": "at timestamp_ntz", "timestamp_format": "epoch_ms"},
        "column at is timestamp_ntz, and timestamp_format has instants: declare it timestamp",
    ),
]


@pytest.mark.parametrize(("settings", "text"), UNFIT)
def test_a_form_without_its_column_is_refused(spark, settings, text):
    with pytest.raises(ValueError) as caught:
        Json(**settings).columns(spark)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("name", "value"), [("spark.sql.legacy.timeParserPolicy", "LEGACY"), ("spark.sql.timestampType", "TIMESTAMP_NTZ")]
)
def test_a_session_that_reads_otherwise_is_refused(spark, name, value):
    other = spark.newSession()
    other.conf.set(name, value)
    with pytest.raises(ValueError) as caught:
        Json(schema="at timestamp, day date", date_format="dd.MM.yyyy").columns(other)
    assert str(caught.value) == (
        f"timestamp_format and date_format are not read strictly where {name} is {value}: remove that"
    )
    Json(schema="at timestamp, day date").columns(other)


BROKEN = {
    "YYYY-MM-dd": "YYYY is the year of a week: write yyyy",
    "yyyy-mm-dd": "mm is the minute and goes with the hour, and there is none: write HH before it, or M for a month",
    "%Y-%m-%d": "% is of strftime, and the pattern is one of Spark's: write yyyy-MM-dd HH:mm:ss",
    "yyyy-MM-ddTHH:mm": "T is a letter of a text: write 'T'",
    "yyyy-MM-dd'T": "the ' at character 11 is not closed: write ' behind the text, or '' for the sign",
    "yyyy-MM-dd[ HH:mm": "the [ at character 11 is not closed: write ] behind what may be missing",
    "yyyy-MM-dd]": "the ] at character 11 closes nothing: write '[' and ']' for the signs",
    "yyyy-MM-dd#": "# is reserved in Spark's patterns: write '#'",
    "yyyy-MM": "it has no day, which would be a guess: write dd for it",
    "HH:mm": "it has no year, which would be a guess: write yyyy for it",
    "yyyy[-MM-dd]": "the month may be missing, and would be a guess: write it outside of [ and ]",
    "yyyy[-DDD]": "the day may be missing, and would be a guess: write it outside of [ and ]",
    "yyyy-MM-DDD": "DDD is the day of the year: write dd for that of the month",
    "yyyyy-MM-dd": "yyyyy has a length that is not read: write one of yy, yyyy",
    "EEE MMM dd yyyy": "EEE is a day of the week, which Spark reads in no text: declare the column string",
    "yyyy-MM-dd HH:mm VV": "VV is the name of a zone, whose clock shows some times twice: write XXX for an offset",
    "yyyy-MM-dd HH:mm z": (
        "z is the name of a zone, and several have the same one: write XXX for an offset, or 'GMT' for the text"
    ),
    "yyyy-MM-dd GG": "GG is no letter that texts are read by: write 'GG' for the text",
    "yyyy-MM-dd hh:mm": "hh is the hour and goes with the half of the day, and there is none: "
    "write a for AM and PM, or HH",
    "yyyy-MM-dd hh:mm[ a]": "hh is the hour and goes with the half of the day, and that may be missing: "
    "write a for AM and PM, or HH",
    "yyyy-MM-dd HH:mm a": "a is the half of the day, and HH the hour of a whole one: leave a out",
    "yyyy-MM-dd[ HH]:mm": "mm is the minute and goes with the hour, and that may be missing: "
    "write HH before it, or M for a month",
    "yyyy-MM-dd HH:mm.SSS": "SSS is the fraction and goes with the second, and there is none: write ss before it",
    "yyyy-MM-dd MMM": "it has the month twice, as MM and MMM: leave one out",
    "yyyyMMddHHmmssSSS": "ssSSS has digits of a second with nothing before them, which Spark does not read: "
    "declare the column string",
    "yyyyMd": "where M ends before d cannot be told: write MM",
}


def test_a_pattern_that_leaves_something_to_a_guess_is_refused_with_what_to_write():
    for pattern, text in BROKEN.items():
        with pytest.raises(ValueError) as caught:
            datetime_pattern.check(pattern)
        assert str(caught.value) == text
    with pytest.raises(ValueError) as caught:
        datetime_pattern.check("yyyy-MM-dd HH", of_dates=True)
    assert str(caught.value) == "HH is the hour, and a date has none: declare the column timestamp, or leave it out"


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"schema": "day date", "date_format": "epoch_s"}, "epoch_s counts from an instant, and a date is none"),
        ({"schema": "infer", "timestamp_format": "yyyy-MM-dd"}, "no column is inferred that timestamp_format is about"),
        (
            {"schema": "infer", "schema_hints": "a date", "date_format": "dd.MM.yyyy", "infer_times": True},
            "infer_times finds times as ISO 8601 has them, and date_format reads them otherwise",
        ),
    ],
)
def test_forms_that_contradict_other_settings_are_refused(settings, text):
    with pytest.raises(ValidationError, match=text):
        Json(**settings)


def test_a_pattern_cuts_nothing_off_where_it_is_said_what_happens_else(spark):
    form = Json(schema="at timestamp", timestamp_format="dd/MM/yyyy HH:mm:ss.SSSSSSSSS")
    assert form.columns(spark).names == ["at"]
    with pytest.raises(ValueError) as caught:
        form.with_policies(Evolution(on_new_column="ignore", on_type_change="dead_letter")).columns(spark)
    assert str(caught.value) == (
        "timestamp_format reads more digits of a second than column at keeps, and on_type_change says that none is cut "
        "off: write SSSSSS, or declare the column string"
    )
