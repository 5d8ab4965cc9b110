"""A lake's small files written without a Spark session, wherever the lake lies."""

from __future__ import annotations

from rivermouth.errors import LakeNotWritable
from rivermouth.ports.lake.lake_files import LocalFiles, is_local
from rivermouth.ports.lake.lake_reader import LakeReader


class LakeWriter(LakeReader):
    """As ``LakeReader``, and writes and deletes single files. For notes that must be kept though Spark is not there.

    Guarantees:
        A file is there whole or not at all. Run twice: the same file.
    """

    def write(self, path: str, text: str) -> None:  # type: ignore[override]
        """See ``LakeFiles``.

        Raises:
            LakeNotWritable: The store does not answer, or refuses.
        """
        try:
            if is_local(path):
                LocalFiles().write(path, text)
                return
            system, place = self._opened(path)
            with system.open_output_stream(place) as stream:
                stream.write(text.encode())
        except (OSError, ValueError, ImportError) as error:
            raise LakeNotWritable(lake=path, detail=str(error).partition("\n")[0]) from error

    def delete(self, path: str) -> None:  # type: ignore[override]
        """See ``LakeFiles``; files alone.

        Raises:
            LakeNotWritable: The store does not answer, or refuses.
        """
        try:
            if is_local(path):
                LocalFiles().delete(path)
                return
            system, place = self._opened(path)
            system.delete_file(place)
        except FileNotFoundError:
            return
        except (OSError, ValueError, ImportError) as error:
            raise LakeNotWritable(lake=path, detail=str(error).partition("\n")[0]) from error
