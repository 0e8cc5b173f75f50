"""A committed result partition: what its manifest says.

The manifest is written by the task itself, with `put_if_absent`, after its files are complete. The first
manifest of a (stage, partition, version) is the partition; later attempts find the name taken (S2-46, S5-13).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from rekindle.runtime.storage import Storage
from rekindle.runtime.task import FOOTER_GUESS, file_checksum, footer_checksum, unsealed

_MASK = (1 << 64) - 1

Content = bytes
"""What a store holds under a name; below, `bytes` is the name of a field."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One data file: path relative to the store's root, size in bytes, CRC-32 of a Parquet file's footer, and of
    the whole `content` where Spark does not read it (sinks); and the `folder` of a sink it goes to, `year=2013`, empty
    for the sink's own."""

    path: str
    bytes: int
    footer: int | None = None
    content: int | None = None
    folder: str = ""

    def damage(self, storage: Storage) -> str | None:
        """Why the file is not as it was written, or None. Does not look at pages that Spark will check.

        Raises ConnectionError when it cannot be known now.
        """
        tail = cache(lambda length: storage.tail(self.path, length))
        try:
            size, _ = tail(FOOTER_GUESS)
            if size != self.bytes:
                return f"{self.path}: {size} bytes, {self.bytes} were written"
            if self.footer is not None and footer_checksum(lambda length: tail(length)[1], size) != self.footer:
                return f"{self.path}: its footer is not what was written"
            if self.content is not None:
                with storage.reading(self.path) as path:
                    if file_checksum(path) != self.content:
                        return f"{self.path}: its content is not what was written"
        except ConnectionError:
            raise
        except OSError as error:
            return f"{self.path}: {error.strerror or error}"
        except ValueError as error:
            return f"{self.path}: {error}"
        return None


@dataclass(frozen=True, slots=True)
class Manifest:
    """A stored partition. `task` is Spark's task attempt id, unique within one driver's life.

    `digest` is `rows-sum1-sum2-columns` in hexadecimal, None where the types cannot be hashed. (Older versions left
    `columns` out, the hash of their names and types.)
    """

    stage: str
    partition: int
    version: int
    task: int
    writer: str
    rows: int
    bytes: int
    digest: str | None
    files: tuple[StoredFile, ...]
    seconds: float
    finished_at: float
    message: str | None = None
    """What the writer of a sink has returned, where rows went to that."""

    @classmethod
    def parse(cls, data: Content) -> Manifest:
        """Raises ValueError when `data` is not a whole manifest of a format this version reads."""
        try:
            raw = unsealed(data)
            if raw["format"] != 1:
                raise ValueError(f"format {raw['format']} is not 1")
            return cls(
                stage=raw["stage"],
                partition=int(raw["partition"]),
                version=int(raw["version"]),
                task=int(raw["task"]),
                writer=raw["writer"],
                rows=int(raw["rows"]),
                bytes=int(raw["bytes"]),
                digest=raw["digest"],
                files=tuple(
                    StoredFile(
                        file["path"], int(file["bytes"]), file["footer"], file["content"], file.get("folder", "")
                    )
                    for file in raw["files"]
                ),
                seconds=float(raw["seconds"]),
                finished_at=float(raw["finishedAt"]),
                message=raw.get("message"),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a whole manifest: {error!r}") from error

    @classmethod
    def of_nothing(cls, stage: str, partition: int) -> Manifest:
        """A partition that reads as empty; in place of one that will not be read."""
        return cls(stage, partition, 0, 0, "", 0, 0, None, (), 0.0, 0.0)

    def missing(self, storage: Storage) -> str | None:
        """Why a file of this partition cannot be read as it was written, or None. Looks at sizes and footers.

        Raises ConnectionError when it cannot be known now.
        """
        return next((why for file in self.files if (why := file.damage(storage))), None)

    def corrupt(self, storage: Storage) -> str | None:
        """Why a file cannot be read back, or None. Reads every page and compares its checksum.

        Raises ConnectionError when it cannot be known now.
        """
        import pyarrow.parquet

        for file in self.files:
            if not file.path.endswith(".parquet"):
                continue
            try:
                with (
                    storage.reading(file.path) as path,
                    pyarrow.parquet.ParquetFile(path, page_checksum_verification=True) as stored,
                ):
                    for group in range(stored.num_row_groups):
                        rows = stored.read_row_group(group).num_rows  # what a damaged page header says
                        if rows != stored.metadata.row_group(group).num_rows:
                            return f"{file.path}: rows are missing"
            except ConnectionError:
                raise
            except Exception as error:  # whatever the library raises over damaged bytes
                return f"{file.path}: {str(error)[:200]}"
        return None


def combine_digests(digests: list[str | None]) -> str | None:
    """The digest of a whole result from those of its partitions; None when any is not comparable, or when they are of
    different columns."""
    rows = first = second = 0
    columns: set[tuple[str, ...]] = set()
    for digest in digests:
        if digest is None:
            return None
        count, one, other, *of = digest.split("-")
        rows, first, second = rows + int(count, 16), (first + int(one, 16)) & _MASK, (second + int(other, 16)) & _MASK
        columns.add(tuple(of))
    if len(columns) != 1:
        return None
    return "-".join([f"{rows:x}", f"{first:016x}", f"{second:016x}", *columns.pop()])
