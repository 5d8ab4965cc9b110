"""A pipeline's graph as a picture: in Mermaid's words, or as SVG."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rivermouth.pipelines.graph import Graph

_WIDTH, _HEIGHT, _GAP = 200, 36, 64
_LONGEST: Final = 26
_FILLS: Final = {"streaming_table": "#d6e8fa", "materialized_view": "#d9f2d9", "view": "#f2f2f2", "sink": "#fae3cf"}
_MARKER: Final = (
    '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0,0 L8,4 L0,8 z" fill="#667"/></marker></defs>'
)


def mermaid(graph: Graph) -> str:
    """The graph in Mermaid's words."""
    lines = ["flowchart LR"]
    shapes = {
        "streaming_table": ("[(", ")]"),
        "materialized_view": ("[", "]"),
        "view": ("([", "])"),
        "sink": ("[/", "/]"),
    }
    numbers: dict[str, str] = {}
    for node in graph.nodes:
        name, (opening, closing) = graph.shown(node), shapes[node.kind]
        numbers[name] = f"n{len(numbers)}"
        lines.append(f'  {numbers[name]}{opening}"{name}"{closing}')
    for node in graph.nodes:
        for each in node.inputs:
            if each.name not in numbers:
                numbers[each.name] = f"n{len(numbers)}"
                lines.append(f'  {numbers[each.name]}{{{{"{each.name}"}}}}')
            arrow = "-->" if each.stream else "-.->"
            lines.append(f"  {numbers[each.name]} {arrow} {numbers[graph.shown(node)]}")
    return "\n".join(lines)


def svg(graph: Graph) -> str:
    """The graph as a picture: columns by depth, from what is read to what is made."""
    columns: dict[int, list[str]] = {}
    for name, depth in _depths(graph).items():
        columns.setdefault(depth, []).append(name)
    place = {
        name: (20 + column * (_WIDTH + _GAP), 20 + row * (_HEIGHT + 20))
        for column, names in columns.items()
        for row, name in enumerate(names)
    }
    right = max((x for x, _ in place.values()), default=0) + _WIDTH + 20
    bottom = max((y for _, y in place.values()), default=0) + _HEIGHT + 20
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{right}" height="{bottom}" '
        f'font-family="sans-serif" font-size="13">{_MARKER}{_arrows(graph, place)}{_boxes(graph, place)}</svg>\n'
    )


def _arrows(graph: Graph, place: Mapping[str, tuple[int, int]]) -> str:
    arrows = []
    for node in graph.nodes:
        end, y2 = place[graph.shown(node)]
        for each in node.inputs:
            x1, y1 = place[each.name]
            dash = "" if each.stream else ' stroke-dasharray="4 3"'
            start, up, down = x1 + _WIDTH, y1 + _HEIGHT // 2, y2 + _HEIGHT // 2
            arrows.append(
                f'<path d="M{start},{up} C{start + 32},{up} {end - 32},{down} {end},{down}" '
                f'fill="none" stroke="#667"{dash} marker-end="url(#a)"/>'
            )
    return "".join(arrows)


def _boxes(graph: Graph, place: Mapping[str, tuple[int, int]]) -> str:
    kinds = {graph.shown(node): node.kind for node in graph.nodes}
    boxes = []
    for name, (x, y) in place.items():
        fill = _FILLS.get(kinds.get(name, ""), "#ffffff")
        text = escape(name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…")
        boxes.append(
            f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="5" fill="{fill}" stroke="#667"/>'
            f'<text x="{x + _WIDTH // 2}" y="{y + _HEIGHT // 2 + 5}" text-anchor="middle">{text}</text>'
        )
    return "".join(boxes)


def _depths(graph: Graph) -> dict[str, int]:
    """By name how far each box is from what nothing precedes."""
    depth: dict[str, int] = {}
    for node in graph.nodes:  # behind what they read
        for each in node.inputs:
            depth.setdefault(each.name, 0)
        depth[graph.shown(node)] = 1 + max((depth[each.name] for each in node.inputs), default=-1)
    return depth
