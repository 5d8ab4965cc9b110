"""Where the things of a flow lie."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.domain.project.distinct_locations import check_apart, check_distinct
from rivermouth.domain.project.locations import FlowPlaces, inside, location, name_of_topic, resolve
from rivermouth.errors import EnvironmentMissing, PlaceInvalid, TableShared
from rivermouth.spec import Flow, Places, ProjectSpec

BASE = Path("/projects/shop")
TOPICS = st.from_regex(r"\A[A-Za-z0-9._-]{1,30}\Z").filter(lambda topic: topic not in (".", ".."))


def flow(name: str = "orders", **changes) -> Flow:
    body = {"name": name, "topics": ["orders"], "format": "raw", "table": "silver.orders", **changes}
    return Flow.model_validate({key: value for key, value in body.items() if value is not None})


def places(one: Flow, lake: str = "./lake", *, debug: bool = False, top: Places | None = None, **environ: str):
    project = ProjectSpec(lake=lake, places=top or Places())
    return resolve(project, one, base=BASE, environ=environ, debug=debug)


def test_the_places_by_convention():
    assert places(flow()) == FlowPlaces(
        flow="orders",
        name="silver.orders",
        catalog=None,
        registered=None,
        table="/projects/shop/lake/silver/orders",
        checkpoint="/projects/shop/lake/_rivermouth/checkpoints/silver.orders",
        dead_letter_table="/projects/shop/lake/silver/orders__dead_letters",
        lake="/projects/shop/lake",
        state="/projects/shop/lake/_rivermouth",
        ledger_file="/projects/shop/lake/_rivermouth/ledger/silver.orders.json",
        lease_file="/projects/shop/lake/_rivermouth/leases/silver.orders.json",
        requests="/projects/shop/lake/_rivermouth/requests/orders",
        tombstones="/projects/shop/lake/_rivermouth/tombstones/silver.orders",
    )


def test_a_trial_has_places_of_its_own():
    assert places(flow(), debug=True) == FlowPlaces(
        flow="orders",
        name="silver.orders_debug",
        catalog=None,
        registered=None,
        table="/projects/shop/lake/silver/orders_debug",
        checkpoint="/projects/shop/lake/_rivermouth_debug/checkpoints/silver.orders",
        dead_letter_table="/projects/shop/lake/silver/orders__dead_letters_debug",
        lake="/projects/shop/lake",
        state="/projects/shop/lake/_rivermouth_debug",
        ledger_file="/projects/shop/lake/_rivermouth_debug/ledger/silver.orders_debug.json",
        lease_file="/projects/shop/lake/_rivermouth_debug/leases/silver.orders_debug.json",
        requests="/projects/shop/lake/_rivermouth_debug/requests/orders",
        tombstones="/projects/shop/lake/_rivermouth_debug/tombstones/silver.orders_debug",
    )


@pytest.mark.parametrize(
    ("catalog", "table", "registered"),
    [
        ("spark_catalog", "bronze.a-b", "spark_catalog.bronze.a_b"),
        ({"schema": "lake_{schema}"}, "bronze.{topic}", "spark_catalog.lake_bronze.orders"),
        ({"schema": "fixed"}, "my-bronze.a", "spark_catalog.fixed.a"),
        ({"name": "unity", "schema": "x-{schema}"}, "my-bronze.a", "unity.x_my_bronze.a"),
        ("spark_catalog", "other.silver.orders", "other.silver.orders"),
        (None, "silver.orders", None),
    ],
)
def test_in_the_projects_catalog_each_table_has_a_name(catalog, table, registered):
    project = ProjectSpec(lake="./lake", catalog=catalog)
    found = [
        resolve(project, flow(table=table), base=BASE, environ={}, debug=debug).registered for debug in (False, True)
    ]
    assert found == [registered, registered and f"{registered}_debug"]


def test_a_table_of_three_parts_is_also_registered_in_its_catalog():
    found = places(flow(table="lakehouse.silver.orders"))

    assert (found.catalog, found.name, found.full_name) == ("lakehouse", "silver.orders", "lakehouse.silver.orders")
    assert found.registered == "lakehouse.silver.orders"
    assert found.table == "/projects/shop/lake/silver/orders"


def archive(name: str, path: str, **changes) -> Flow:
    return flow(name, table=f"x.{name}", sink={"type": "files", "format": "json", "path": path}, **changes)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("archive/orders/", "/projects/shop/lake/archive/orders"),
        ("../orders", "/projects/shop/orders"),
        ("/archive", "/archive"),
        ("file:///my%20archive", "/my archive"),
        ("~/archive", "/home/ann/archive"),
        ("s3a://bucket//orders/", "s3a://bucket/orders"),
    ],
)
def test_the_archive_of_a_trial_is_another_one(path, expected):
    found = [places(archive("a", path), debug=debug, HOME="/home/ann").archive for debug in (False, True)]

    assert found == [expected, f"{expected}_debug"]
    assert [places(flow(), debug=debug).archive for debug in (False, True)] == ["", ""]


def test_the_templates_of_the_flow_win_over_those_of_the_project():
    top = Places(table="s3a://{bucket_prefix}{topic}-delta/delta-table", bucket_prefix="acme-", checkpoint="/c/{table}")
    one = flow(topics=["shop.orders-v1"], places={"checkpoint": "${ROOT}/{schema}-{table}"})

    found = places(one, top=top, ROOT="/x")

    assert found.table == "s3a://acme-shop.orders-v1-delta/delta-table"
    assert found.checkpoint == "/x/silver-orders"
    assert found.dead_letter_table == "/projects/shop/lake/silver/orders__dead_letters"


def test_a_topic_in_a_tables_name_becomes_one_that_needs_no_quotes():
    found = places(flow(topics=["shop.orders-v1"], table="bronze.{topic}"))

    assert found.name == "bronze.shop_orders_v1"
    assert found.table == "/projects/shop/lake/bronze/shop_orders_v1"


def test_a_checkpoint_in_the_tables_folder_moves_with_the_trial():
    one = flow(places={"checkpoint": "{lake}/{schema}/{table}/_checkpoint"})

    assert places(one, debug=True).checkpoint == "/projects/shop/lake/silver/orders_debug/_checkpoint"
    check_distinct([places(one)])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("./lake", "/projects/shop/lake"),
        ("lake/", "/projects/shop/lake"),
        ("../lake", "/projects/lake"),
        (".", "/projects/shop"),
        ("/", "/"),
        ("//data//lake/", "/data/lake"),
        ("/data/./a/../lake", "/data/lake"),
        ("~/lake", "/home/ann/lake"),
        ("~", "/home/ann"),
        ("file:///data/my%20lake", "/data/my lake"),
        ("file:/data/lake", "/data/lake"),
        ("file://localhost/data", "/data"),
        ("s3a://bucket", "s3a://bucket"),
        ("s3a://bucket/", "s3a://bucket"),
        ("s3a://bucket//a/../b/", "s3a://bucket/b"),
        ("S3A://bucket/x", "s3a://bucket/x"),
        ("abfss://box@account.dfs.core.windows.net/x", "abfss://box@account.dfs.core.windows.net/x"),
        ("hdfs:///user/x", "hdfs:///user/x"),
        ("hdfs://name:8020/x", "hdfs://name:8020/x"),
    ],
)
def test_places_are_absolute_and_normal(text, expected):
    assert location(text, base=BASE, environ={"HOME": "/home/ann"}) == expected
    assert location(expected, base=BASE, environ={}) == expected


@pytest.mark.parametrize(
    ("one", "lake", "told"),
    [
        pytest.param(
            flow(places={"table": "{lake}/{tabel}"}),
            "./lake",
            "[PLACE_INVALID] flow orders: places.table: unknown placeholder {tabel}; nothing was run\n"
            "  hint: did you mean 'table'?",
            id="an unknown placeholder",
        ),
        pytest.param(
            flow(places={"checkpoint": "{lake"}),
            "./lake",
            "[PLACE_INVALID] flow orders: places.checkpoint: a { has no partner; nothing was run\n"
            "  hint: write placeholders as {lake}, {schema}, {table}, {topic}, {bucket_prefix}",
            id="half a placeholder",
        ),
        pytest.param(
            flow(table="bronze.{table}"),
            "./lake",
            "[PLACE_INVALID] flow orders: table: unknown placeholder {table}, and by what a record holds only a "
            "flow over a table is parted; nothing was run\n  hint: keep the records in a raw table, "
            "partition_by: [{table: ...}], and read it by source:",
            id="another placeholder than topic in a name",
        ),
        pytest.param(
            flow(topics=["a", "b"], table="bronze.{topic}"),
            "./lake",
            "[PLACE_INVALID] flow orders: table: {topic} is the flow's one topic, and it reads 2; nothing was "
            "run\n  hint: write the name out instead of {topic}",
            id="the topic of two",
        ),
        pytest.param(
            flow(topics=None, topic_pattern="a.*", table="bronze.{topic}"),
            "./lake",
            "[PLACE_INVALID] flow orders: table: {topic} is the flow's one topic, and it reads a "
            "topic_pattern or a table; nothing was run\n  hint: write the name out instead of {topic}",
            id="the topic of a pattern",
        ),
        pytest.param(
            flow(),
            "s3://bucket/lake",
            "[PLACE_INVALID] lake: Spark does not write to s3://; nothing was run\n  hint: write s3a:// instead",
            id="another word for S3",
        ),
        pytest.param(
            flow(),
            "file://data/lake",
            "[PLACE_INVALID] lake: a file: URI names a host; nothing was run\n"
            "  hint: write file:/// with three slashes and the path behind it, or a plain path",
            id="two slashes for three",
        ),
        pytest.param(
            flow(),
            "{bucket_prefix}/lake",
            "[PLACE_INVALID] lake: placeholders in braces belong into places:, not here; nothing was run\n"
            "  hint: lake: ./lake, and places: {table: ...} for a layout of your own",
            id="placeholders in the lake",
        ),
        pytest.param(
            archive("a", "s3://bucket/files"),
            "./lake",
            "[PLACE_INVALID] flow a: sink.path: Spark does not write to s3://; nothing was run\n"
            "  hint: write s3a:// instead",
            id="an archive with another word for S3",
        ),
        pytest.param(
            flow(),
            " ",
            "[PLACE_INVALID] lake: the place is empty; nothing was run\n  hint: lake: ./lake",
            id="nothing",
        ),
    ],
)
def test_what_cannot_be_a_place_is_told_in_whole(one, lake, told):
    with pytest.raises(PlaceInvalid) as caught:
        places(one, lake)

    assert str(caught.value) == told


def test_a_home_folder_without_home_is_told_in_whole():
    with pytest.raises(EnvironmentMissing) as caught:
        places(flow(), "~/lake")

    assert str(caught.value) == (
        "[ENVIRONMENT_MISSING] environment variable HOME is not set; nothing was run\n"
        "  hint: export HOME=..., or write ${HOME:-default}"
    )


A = flow("a", table="x.a")
SHARED = [
    pytest.param(flow("b", table="x.a"), "table x.a", id="one name"),
    pytest.param(flow("b", table="x.b", places={"table": "{lake}/x/a"}), "table /projects/shop/lake/x/a", id="table"),
    pytest.param(
        flow("b", table="x.b", places={"dead_letter_table": "{lake}/x/a__dead_letters"}),
        "dead letter table /projects/shop/lake/x/a__dead_letters",
        id="dead letters",
    ),
    pytest.param(
        flow("b", table="x.b", places={"checkpoint": "{lake}/_rivermouth/checkpoints/x.a"}),
        "checkpoint /projects/shop/lake/_rivermouth/checkpoints/x.a",
        id="checkpoint",
    ),
    pytest.param(
        flow("b", table="x.a__dead_letters"),
        "folder /projects/shop/lake/x/a__dead_letters (the dead letter table of 'a' and the table of 'b')",
        id="a table that is another's dead letters",
    ),
    pytest.param(
        flow("b", table="x.b", places={"dead_letter_table": "{lake}/x/a/dead"}),
        "folder /projects/shop/lake/x/a (the dead letter table of 'b' lies inside the table of 'a')",
        id="dead letters inside another's table",
    ),
    pytest.param(
        flow("b", table="x.b", places={"table": "{lake}/x", "dead_letter_table": "{lake}/dead"}),
        "folder /projects/shop/lake/x (the table of 'a' lies inside the table of 'b')",
        id="a table around another's",
    ),
    pytest.param(
        flow("b", table="x.b", places={"checkpoint": "{lake}/x/a/checkpoint"}),
        "folder /projects/shop/lake/x/a (the checkpoint of 'b' lies inside the table of 'a')",
        id="a checkpoint that VACUUM would delete",
    ),
    pytest.param(
        flow("b", table="x.b", places={"checkpoint": "{lake}/x/a/_delta_log/c"}),
        "folder /projects/shop/lake/x/a (the checkpoint of 'b' lies inside the table of 'a')",
        id="a checkpoint in a table's log",
    ),
]


@pytest.mark.parametrize(("other", "told"), SHARED)
def test_two_flows_in_one_place_are_told_in_whole(other, told):
    with pytest.raises(TableShared) as caught:
        check_distinct([places(A), places(other)])

    assert str(caught.value) == (
        f"[TABLE_SHARED] flows 'a' and 'b' share the {told}; neither was run\n  hint: give each flow its own table"
    )


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("x/a", "folder {lake}/x/a (the table of 'a' and the archive of 'b')"),
        ("x/a/files", "folder {lake}/x/a (the archive of 'b' lies inside the table of 'a')"),
        ("x/a/_files", "folder {lake}/x/a (the archive of 'b' lies inside the table of 'a')"),
        (
            "x/a__dead_letters/b",
            "folder {lake}/x/a__dead_letters (the archive of 'b' lies inside the dead letter table of 'a')",
        ),
    ],
)
def test_an_archive_in_the_place_of_another_flow_is_told_in_whole(path, told):
    """VACUUM would delete its files, and readers of the outer folder would read them."""
    with pytest.raises(TableShared) as caught:
        check_distinct([places(archive("a", "s3a://other/files")), places(archive("b", path))])

    assert str(caught.value) == (
        f"[TABLE_SHARED] flows 'a' and 'b' share the {told.format(lake='/projects/shop/lake')}; neither was run\n"
        "  hint: path: archive/b in the sink of flow b"
    )


@pytest.mark.parametrize(
    ("outer", "inner"),
    [("s3a://other/files", "s3a://other/files/b"), ("archive", "archive/b"), ("archive", "archive/x/b")],
)
@pytest.mark.parametrize("outer_first", [True, False])
def test_of_two_archives_the_outer_one_has_the_hint(outer, inner, outer_first):
    """The hint of the inner one could be the path that it has."""
    both = [places(archive("a", outer)), places(archive("b", inner))]
    with pytest.raises(TableShared) as caught:
        check_distinct(both if outer_first else both[::-1])

    first, second = ("a", "b") if outer_first else ("b", "a")
    where = outer if "://" in outer else f"/projects/shop/lake/{outer}"
    assert str(caught.value) == (
        f"[TABLE_SHARED] flows {first!r} and {second!r} share the folder {where} (the archive of 'b' lies inside the "
        "archive of 'a'); neither was run\n  hint: path: archive/a in the sink of flow a"
    )


def test_two_flows_may_share_an_archive_but_a_trial_has_its_own():
    shared = [places(archive("a", "archive")), places(archive("b", "archive/"))]
    check_distinct(shared)
    check_distinct([places(archive("a", "x/b"))])
    real = [places(archive("a", "archive")), places(archive("b", "archive_debug"))]
    check_distinct(real)

    with pytest.raises(TableShared) as caught:
        check_apart([places(archive("a", "archive"), debug=True)], real)

    assert str(caught.value) == (
        "[TABLE_SHARED] flows 'a' and 'b' share the archive /projects/shop/lake/archive_debug; neither was run\n"
        "  hint: path: archive/b in the sink of flow b"
    )


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("x/a", "its table and its archive are both /projects/shop/lake/x/a"),
        ("x/a/files", "its archive lies inside its table"),
        ("x", "its table lies inside its archive"),
        (".", "its table lies inside its archive"),
        ("x/a__dead_letters/files", "its archive lies inside its dead letter table"),
        (
            "_rivermouth/files",
            "its archive lies in /projects/shop/lake/_rivermouth, the folder of rivermouth's own files",
        ),
        ("files/_delta_log", "its archive lies in _delta_log, a folder of Delta's own"),
    ],
)
def test_an_archive_in_another_place_of_its_flow_is_told_in_whole(path, told):
    with pytest.raises(PlaceInvalid) as caught:
        check_distinct([places(archive("a", path))])

    assert str(caught.value) == (
        f"[PLACE_INVALID] flow a: sink.path: {told}; nothing was run\n  hint: path: archive/a in the sink of flow a"
    )


@pytest.mark.parametrize(
    ("own", "told"),
    [
        (
            {"dead_letter_table": "{lake}/{schema}/{table}/dead"},
            "its dead letter table lies inside its table",
        ),
        (
            {"dead_letter_table": "{lake}/{schema}/{table}"},
            "its table and its dead letter table are both /projects/shop/lake/silver/orders",
        ),
        (
            {"checkpoint": "{lake}/silver/orders"},
            "its table and its checkpoint are both /projects/shop/lake/silver/orders",
        ),
        ({"checkpoint": "{lake}/silver"}, "its table lies inside its checkpoint"),
        ({"table": "{lake}/silver/_delta_log"}, "its table lies in _delta_log, a folder of Delta's own"),
        ({"checkpoint": "/other/_change_data/x"}, "its checkpoint lies in _change_data, a folder of Delta's own"),
        (
            {"table": "{lake}/_rivermouth/orders"},
            "its table lies in /projects/shop/lake/_rivermouth, the folder of rivermouth's own files",
        ),
    ],
)
def test_one_flow_with_two_things_in_one_place_is_told_in_whole(own, told):
    with pytest.raises(PlaceInvalid) as caught:
        check_distinct([places(flow(places=own))])

    assert str(caught.value) == (
        f"[PLACE_INVALID] flow orders: {told}; nothing was run\n  hint: give each its own folder under places:"
    )


def test_flows_that_only_look_alike_share_nothing():
    check_distinct([places(A), places(flow("b", table="x.ab")), places(flow("c", table="y.a"))])


@given(st.lists(TOPICS, min_size=1, max_size=4, unique_by=name_of_topic))
def test_law_topics_with_different_names_get_distinct_places(topics):
    found = [places(flow(f"f{i}", topics=[topic], table="bronze.{topic}")) for i, topic in enumerate(topics)]

    check_distinct([one for one in found if not any(one.name == f"{other.name}__dead_letters" for other in found)])
    for one, topic in zip(found, topics, strict=True):
        assert one.name == f"bronze.{name_of_topic(topic)}"
        assert inside(one.table, one.lake)
        assert inside(one.checkpoint, one.state)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20))
def test_law_a_place_is_absolute_and_stays_as_it_is(text):
    try:
        once = location(text, base=BASE, environ={"HOME": "/home/ann"})
    except PlaceInvalid:
        return

    assert once.startswith("/") or ":" in once
    assert location(once, base=Path("/elsewhere"), environ={}) == once
