"""The graph of a pipeline as a picture: each dataset and source is a box, each read an arrow from left to right."""

from __future__ import annotations

from itertools import combinations
from xml.etree import ElementTree as ET

import pytest

from rivermouth.pipelines.graph import Graph, Input, Node, sink_name
from rivermouth.pipelines.graph_pictures import mermaid, svg
from rivermouth.pipelines.names import Names, TableName
from rivermouth.pipelines.spec import Dataset, Sink, SourceLine

AT = SourceLine("a.py", 1)
SVG = "{http://www.w3.org/2000/svg}"


def node(name, kind, *inputs):
    resolved = sink_name(name) if kind == "sink" else TableName(*name.split("."))
    dataset = None if kind == "sink" else Dataset(name, "table", AT)
    sink = Sink(name, AT, "kafka", {}) if kind == "sink" else None
    return Node(resolved, kind, dataset, sink, (), inputs, None, None)


GRAPH = Graph(
    (
        node("default.bronze", "streaming_table", Input("kafka <orders> & more", stream=True, inside=False)),
        node("default.silver", "streaming_table", Input("bronze", stream=True, inside=True)),
        node("default.seen", "view", Input("silver", stream=False, inside=True)),
        node("gold.totals", "materialized_view", Input("seen", stream=False, inside=True)),
        node("out", "sink", Input("silver", stream=True, inside=True)),
    ),
    Names("default"),
)
READS = {
    ("kafka <orders> & more", "bronze"),
    ("bronze", "silver"),
    ("silver", "seen"),
    ("seen", "gold.totals"),
    ("silver", "out"),
}


def numbers(element, *names):
    return [float(element.get(name)) for name in names]


def test_boxes_do_not_overlap_and_arrows_go_from_what_is_read_to_what_reads_it():
    picture = ET.fromstring(svg(GRAPH))
    width, height = numbers(picture, "width", "height")
    boxes = [numbers(each, "x", "y", "width", "height") for each in picture.iter(f"{SVG}rect")]
    texts = [(each.text, *numbers(each, "x", "y")) for each in picture.iter(f"{SVG}text")]
    named = {
        text: next(box for box in boxes if box[0] <= x <= box[0] + box[2] and box[1] <= y <= box[1] + box[3])
        for text, x, y in texts
    }
    assert set(named) == {name for pair in READS for name in pair}
    assert all(x + wide <= width and y + high <= height for x, y, wide, high in named.values())
    for (x, y, wide, high), (left, top, _, _) in combinations(named.values(), 2):
        assert abs(x - left) >= wide or abs(y - top) >= high
    for source, reader in READS:
        assert named[source][0] + named[source][2] < named[reader][0]
    assert len([each for each in picture.iter() if each.get("marker-end")]) == len(READS)


def test_the_graph_in_the_words_of_mermaid():
    assert mermaid(GRAPH).splitlines() == [
        "flowchart LR",
        '  n0[("bronze")]',
        '  n1[("silver")]',
        '  n2(["seen"])',
        '  n3["gold.totals"]',
        '  n4[/"out"/]',
        '  n5{{"kafka <orders> & more"}}',
        "  n5 --> n0",
        "  n0 --> n1",
        "  n1 -.-> n2",
        "  n2 -.-> n3",
        "  n1 --> n4",
    ]


@pytest.mark.parametrize("picture", [svg, mermaid])
def test_a_pipeline_without_datasets_has_a_picture(picture):
    assert picture(Graph())
