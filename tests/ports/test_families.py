"""What the lake keeps of families: which topics have a table, and which were there at the beginning."""

import json
from types import SimpleNamespace

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from rivermouth.domain.ledger.ledger import first_entry
from rivermouth.domain.project.locations import resolve
from rivermouth.domain.project.table_per_topic import Kept, child_of
from rivermouth.engine.schema import kept_schemas
from rivermouth.errors import LakeNotReadable
from rivermouth.ports.lake.known_topics import begin, keep, read_kept
from rivermouth.ports.lake.lake_files import LocalFiles
from rivermouth.schemas.schema_versions import KeptSchema, file_name
from rivermouth.spec import Flow, ProjectSpec


@pytest.fixture
def places(tmp_path):
    return SimpleNamespace(family=lambda name: str(tmp_path / "families" / name))


def family(name="shop", **settings):
    body = {"name": name, "topic_pattern": ".*", "format": "raw", "table": "bronze.{topic}", **settings}
    return Flow.model_validate(body)


def test_what_the_first_run_found_stays(places):
    files, shop = LocalFiles(), family()
    assert read_kept(files, places, shop) == Kept()
    assert begin(files, places, shop, ["b", "a"]) == Kept((), frozenset("ab"))
    keep(files, places, shop, "b.json")
    keep(files, places, shop, "a")
    keep(files, places, shop, "a")
    assert begin(files, places, shop, ["c"]) == Kept(("a", "b.json"), frozenset("ab"))
    assert begin(files, places, family("empty"), []) == Kept((), frozenset())


def test_a_family_keeps_what_it_had_under_its_earlier_name(places):
    files, shop = LocalFiles(), family()
    begin(files, places, shop, ["a"])
    keep(files, places, shop, "a")
    keep(files, places, shop, "b")
    renamed = family("shops", previously="shop")
    kept = Kept(("a", "b"), frozenset("a"))
    assert read_kept(files, places, renamed) == kept
    assert begin(files, places, renamed, ["a", "b", "c"]) == kept
    assert read_kept(files, places, family("shops")) == kept


def test_a_topic_whose_name_is_as_long_as_kafka_takes_is_kept(places):
    files, shop, longest = LocalFiles(), family(), "t" * 249
    keep(files, places, shop, longest)
    assert read_kept(files, places, shop).topics == (longest,)


def test_the_schema_of_a_flow_of_one_topic_is_that_of_no_other_topic(tmp_path):
    files = LocalFiles()
    shop = family(topic_pattern=None, topics=["a", "b"], format={"type": "json", "schema": "infer"})
    a, b = (child_of(shop, topic) for topic in "ab")
    places = {each.name: resolve(ProjectSpec(lake=str(tmp_path)), each, base=tmp_path, environ={}) for each in (a, b)}
    kept = KeptSchema("shop", 1, "2026-01-31T12:00:00", 3, 0, True, (), StructType([StructField("id", LongType())]))
    files.create(f"{places[a.name].schemas('shop')}/{file_name(1)}", kept.to_text())
    # As long as it had one topic the flow wrote that one's table.
    for child, flow in ((a, "shop"), (b, "shop.b")):
        info = {"commitInfo": {"userMetadata": first_entry(flow, {child.topics[0]: {0: 0}}, {}).to_json()}}
        files.create(f"{places[child.name].table}/_delta_log/{0:020d}.json", json.dumps(info))
    assert [kept_schemas.newest(each, files, places[each.name]) for each in (a, b)] == [kept, None]
    assert kept_schemas.newest(child_of(shop, "c"), files, places[b.name]) is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "it is not what rivermouth writes there"),
        ("[]", "it is not what rivermouth writes there"),
        ('{"format": 1}', "it is not what rivermouth writes there"),
        ('{"format": 2}', "it has format 2, and this version reads format 1"),
    ],
)
def test_what_is_kept_must_be_what_we_wrote(places, tmp_path, text, told):
    folder = tmp_path / "families" / "shop"
    folder.mkdir(parents=True)
    (folder / "begun.json").write_text(text)
    with pytest.raises(LakeNotReadable) as caught:
        read_kept(LocalFiles(), places, family())
    assert str(caught.value) == (
        f"[LAKE_NOT_READABLE] cannot read {folder}/begun.json: {told}\n"
        "  hint: check the credentials and the address of the lake, in spark: conf for object stores"
    )
