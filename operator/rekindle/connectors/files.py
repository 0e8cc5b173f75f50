"""Files, read by ranges of bytes.

pipeline.read("orders", Files, options={"path": "s3://lake/orders", "format": "parquet"}, partitions=16)
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from rekindle.connectors import file_formats
from rekindle.connectors.arrow_types import arrow_schema
from rekindle.connectors.column_names import called_as
from rekindle.connectors.file_system import file_system
from rekindle.connectors.hive_folders import key_of
from rekindle.connectors.option_values import flag, known_options

_FORMATS = ("parquet", "csv", "json", "text")
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
_UNREADABLE = (".br", ".lzo", ".snappy", ".xz", ".zip", ".7z")
"""Compressed in a way that pyarrow does not know."""
_INT, _LONG = range(-1 << 31, 1 << 31), range(-1 << 63, 1 << 63)


@dataclass(frozen=True)
class FileOptions:
    """What `options` say, checked.

    Attributes:
        paths: files, folders or patterns.
        format: one of parquet, csv, json and text.
        split_bytes: of a split, at most.
        header: whether the first line of a CSV file has the names of its columns.
        delimiter: between a CSV file's columns.
        multi_line: whether there may be line ends within a CSV file's values.
    """

    paths: tuple[str, ...]
    format: str
    split_bytes: int = 64 << 20
    header: bool = True
    delimiter: str = ","
    multi_line: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> FileOptions:
        """Raises ValueError that names the option, and the remedy."""
        said = known_options("Files", options, _OPTIONS)
        paths = tuple(filter(None, (path.strip() for path in said.get("path", "").split(","))))
        if not paths:
            raise ValueError("Files needs the option 'path': a file, a folder or a pattern such as data/*.csv")
        if said.get("format") not in _FORMATS:
            raise ValueError(f"Files has format={said.get('format')!r}: it is one of {', '.join(_FORMATS)}")
        delimiter = said.get("delimiter", ",")
        if len(delimiter) != 1:
            raise ValueError(f"Files has delimiter={delimiter!r}: it is one character")
        return cls(
            paths,
            said["format"],
            _bytes(said.get("splitbytes", "64m")),
            flag("Files", "header", said.get("header", "true")),
            delimiter,
            flag("Files", "multiLine", said.get("multiline", "false")),
        )


_OPTIONS = ("path", "format", "splitBytes", "header", "delimiter", "multiLine")


def _bytes(text: str) -> int:
    number = text.lower().rstrip("kmg")
    unit = _UNITS.get(text.lower()[len(number) :])
    if unit is None or not number.isdecimal() or not int(number):
        raise ValueError(f"Files has splitBytes={text!r}: it is a number of bytes, such as 64m")
    return int(number) * unit


class FileSplit(InputPartition):
    """The bytes from `start` up to `stop` of a file that had `size` bytes when the run began, and was `modified` then.

    Attributes:
        root: what `path` said, which file system it is.
        path: of the file, there.
        keys: what the names of its folders say of it; None is null.
        modified: nanoseconds since 1970; None where the file system does not tell.
    """

    modified: int | None = None  # of splits that an older version has named

    def __init__(
        self,
        root: str,
        path: str,
        start: int,
        stop: int,
        size: int,
        keys: Mapping[str, str | None],
        modified: int | None = None,
    ) -> None:
        super().__init__(None)
        self.root, self.path, self.start, self.stop, self.size, self.keys = root, path, start, stop, size, dict(keys)
        self.modified = modified

    def __repr__(self) -> str:
        return f"{self.path}, bytes {self.start} to {self.stop} of {self.size}"


class Files(DataSource):
    """CSV, JSON lines, text and Parquet. Files that are compressed as a whole are read as a whole."""

    _listed: list[FileSplit] | None = None  # by `schema`, for the reader that is made after it

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_listed": None}  # there may be a million

    @classmethod
    def name(cls) -> str:
        """Spark's name for it."""
        return "rekindle-files"

    def schema(self) -> Any:
        """What the first file says of its columns, and behind them those of the folders' names."""
        from pyspark.sql.pandas.types import from_arrow_schema

        options = FileOptions.parse(self.options)
        self._listed = found = _found(options)
        system, _ = file_system(found[0].root)
        own = file_formats.schema_of(system, found[0].path, options)
        schema = from_arrow_schema(own, prefer_timestamp_ntz=True)  # text has no time zone
        for key in dict.fromkeys(key for one in found for key in one.keys):
            schema = schema.add(key, _kind([one.keys.get(key, "") for one in found]))
        return schema

    def reader(self, schema: Any) -> DataSourceReader:
        """Reads the columns of `schema`."""
        listed, self._listed = self._listed, None
        return _Reader(FileOptions.parse(self.options), schema, listed)


class _Reader(DataSourceReader):
    def __init__(self, options: FileOptions, schema: Any, listed: list[FileSplit] | None) -> None:
        self._options, self._schema, self._listed = options, schema, listed

    def partitions(self) -> list[InputPartition]:
        listed, self._listed = self._listed, None  # the reader is sent to executors
        found = _found(self._options) if listed is None else listed
        splits = [split for one in found for split in _cut(one, self._options)]
        splits.sort(key=lambda split: split.start - split.stop)  # long ones first
        return [*splits]

    def read(self, partition: Any) -> Iterator[Any]:
        import pyarrow

        system, _ = file_system(partition.root)
        _check_unchanged(partition, system.get_file_info(partition.path))
        schema = arrow_schema(self._schema)
        columns = called_as(list(partition.keys), schema.names, partition.path)
        keys = dict(zip(columns, partition.keys.values(), strict=True))
        own = pyarrow.schema([field for field in schema if field.name not in keys])
        for batch in file_formats.batches(system, partition, self._options, own):
            yield file_formats.fitted(batch, schema, keys, partition.path)


def _check_unchanged(split: FileSplit, now: Any) -> None:
    """Raises ValueError where a file is not as it was when the run began, as far as the file system tells."""
    if now.size != split.size:
        what = "is gone" if now.size is None else f"has {now.size} bytes"
        then = f"had {split.size}"
    elif None not in (now.mtime_ns, split.modified) and now.mtime_ns != split.modified:
        what, then = f"was written to at {now.mtime.isoformat(' ')}", "had not been"
    else:
        return
    raise ValueError(
        f"{split.path} {what}, and {then} when the run began: it was changed since. "
        "Restore it as it was, with its time, or begin anew (--fresh)"
    )


def _found(options: FileOptions) -> list[FileSplit]:
    """All files, each whole, in the order of their names. Raises ValueError where there is none."""
    found: list[FileSplit] = []
    for path in options.paths:
        files = sorted(_files_at(path), key=lambda one: one.path)
        if not files:
            raise ValueError(f"there is no file at {path}: names that begin with _ or . do not count")
        for one in files:
            if options.format != "parquet" and one.path.endswith(_UNREADABLE):
                raise ValueError(f"{one.path} cannot be read: have it compressed as {', '.join(_COMPRESSED)}")
        found.extend(files)
    return found


def _files_at(root: str) -> Iterator[FileSplit]:
    from pyarrow.fs import FileSelector, FileType

    system, path = file_system(root)
    parts = path.split("/")
    fixed = next((place for place, part in enumerate(parts) if any(sign in part for sign in "*?[")), len(parts))
    base = "/".join(parts[:fixed])
    info = system.get_file_info(base)
    below = [info] if info.type == FileType.File else []
    if info.type == FileType.Directory:
        below = system.get_file_info(FileSelector(base, recursive=True))
    for one in below:
        names = one.path.split("/")
        within = names[fixed:]
        if one.type != FileType.File or any(map(_is_hidden, within)) or not one.size:
            continue
        if len(within) >= len(parts) - fixed and all(map(fnmatch.fnmatchcase, within, parts[fixed:])):
            keys = dict(key_of(name) for name in within[:-1] if "=" in name)
            yield FileSplit(root, one.path, 0, one.size, one.size, keys, one.mtime_ns)


def _is_hidden(name: str) -> bool:
    """As Spark has it: `_x=1` is the folder of a column."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _kind(values: list[str | None]) -> Any:
    """Spark's type of a column that folders name."""
    from pyspark.sql.types import IntegerType, LongType, StringType

    said = [value for value in values if value is not None]
    if not said or not all(value.isascii() and value.removeprefix("-").isdecimal() for value in said):
        return StringType()
    numbers = list(map(int, said))
    if all(number in _INT for number in numbers):
        return IntegerType()
    return LongType() if all(number in _LONG for number in numbers) else StringType()


def _cut(file: FileSplit, options: FileOptions) -> Iterator[FileSplit]:
    is_whole = options.format != "parquet" and (file.path.endswith(_COMPRESSED) or options.multi_line)
    step = file.size if is_whole else options.split_bytes
    for start in range(0, file.size, step):
        stop = min(file.size, start + step)
        yield FileSplit(file.root, file.path, start, stop, file.size, file.keys, file.modified)
