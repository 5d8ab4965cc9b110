"""Files that sources leave out because they were there at the first start of their flows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rivermouth.pipelines.files.listing import has_name, pattern_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from rivermouth.pipelines.files.kept_schema import KeptSchema


@dataclass(frozen=True, slots=True)
class FirstStart:
    """What is a first start if no flow that reads the source has begun.

    Attributes:
        place: Where the list of its files is kept.
        dataset: The dataset, view or sink whose query reads the source.
        path: Where Spark reads.
        files: Addresses of the files that are there.
        flow: The flow that reads the source; empty where it is a view's.
    """

    place: KeptSchema
    dataset: str
    path: str
    files: tuple[str, ...]
    flow: str = ""

    def left_out_earlier(self) -> tuple[str, ...]:
        """Those that are left out by the list of an older version of rivermouth, if it is of this source's files."""
        pattern, earlier = pattern_of(self.place.files.glob), self.place.earlier
        listed = (earlier.existing() if earlier is not None else None) or ()
        return tuple(each for each in listed if has_name(each, pattern))


@dataclass(slots=True)
class FirstStarts:
    """The lists of files that are left out.

    A source whose list is not found is read for the first time, or its list was kept for another path, dataset or
    folder. That is known when the flows are known that read it; until then its files are left out.

    Attributes:
        settled: Whether flows are known or there are none: then a list that is not found is made.
        waiting: Sources whose list was not found before.
    """

    settled: bool = False
    waiting: list[FirstStart] = field(default_factory=list)
    _known: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def left_out(self, start: FirstStart) -> tuple[str, ...]:
        """Addresses of the files that a source leaves out, if this is its first start or not."""
        place = start.place
        if place.folder in self._known:
            return self._known[place.folder]
        kept = place.existing()
        if kept is None and self.settled:
            place.keep_existing(start.files)
        elif kept is None:
            self.waiting.append(start)
        found = self._known[place.folder] = start.files if kept is None else tuple(kept)
        return found

    def settle(self, has_begun: Callable[[FirstStart], bool]) -> bool:
        """Keeps the lists: where a flow has begun no file is added to them, as the flow knows which ones it has read.

        Args:
            has_begun: Whether a flow that reads the source has read files before.

        Returns:
            Whether there is such a source; then its query must be evaluated again.

        Guarantees:
            Run twice: as once. Stopped half-way: lists that are not kept are found at the next start in the same way.
        """
        waiting, self.waiting, self.settled, changed = self.waiting, [], True, False
        for each in waiting:
            begun = has_begun(each)
            files = each.left_out_earlier() if begun else each.files
            each.place.keep_existing(files)
            self._known[each.place.folder] = files
            changed = changed or begun
        return changed
