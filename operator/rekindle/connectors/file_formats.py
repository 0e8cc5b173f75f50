"""How the rows of a range of a file are read, with pyarrow."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Mapping
from typing import Any

_CHUNK = 8 << 20
"""Bytes of lines that are read at a time."""
_SAMPLE = 1 << 20
"""Bytes that columns and their types are inferred from."""


def schema_of(system: Any, path: str, options: Any) -> Any:
    """A pyarrow schema, of a file's own columns. Raises ValueError where it is no such file."""
    import pyarrow
    import pyarrow.parquet

    if options.format == "text":
        return pyarrow.schema([("value", pyarrow.string())])
    with _named(path, options.format):
        if options.format == "parquet":
            with system.open_input_file(path) as file:
                return pyarrow.parquet.read_schema(file).remove_metadata()
        with _stream(system, path) as stream:
            sample = _lines(stream, _SAMPLE)
        table = (
            _json(sample, None) if options.format == "json" else _csv(sample, options, _header(sample, options), None)
        )
        if table is None:
            raise ValueError(f"the first MiB of {path} has no row to tell its columns by: name them (schema=...)")
        return pyarrow.schema(
            field.with_type(pyarrow.string()) if pyarrow.types.is_null(field.type) else field for field in table.schema
        )


def batches(system: Any, split: Any, options: Any, schema: Any) -> Iterator[Any]:
    """Record batches of the rows that begin in a split, with those columns of `schema` that the file has."""
    with _named(split.path, options.format):
        if options.format == "parquet":
            yield from _parquet(system, split, schema)
            return
        names = list(schema.names)
        if options.format == "csv" and options.header:
            with _stream(system, split.path) as stream:
                names = _header(stream.readline(), options) or names
        for number, lines in enumerate(_chunks(system, split, options)):
            if options.format == "csv":
                if options.header and number == 0 and split.start == 0:
                    lines = lines.partition(b"\n")[2]
                table = _csv(lines, options, names, schema) if lines else None
            else:
                table = _json(lines, schema) if options.format == "json" else _text(lines)
            if table is not None:
                yield from table.to_batches()


def fitted(batch: Any, schema: Any, keys: Mapping[str, str], path: str) -> Any:
    """A batch with exactly the columns of `schema`: what a file has not is null, or said by its folders' names.

    Raises ValueError that names the column for what is of another type.
    """
    import pyarrow

    columns = []
    for field in schema:
        try:
            if field.name in keys:
                value = pyarrow.scalar(keys[field.name]).cast(field.type)
                columns.append(pyarrow.repeat(value, batch.num_rows))
            elif field.name in batch.schema.names:
                columns.append(batch.column(field.name).cast(field.type))
            else:
                columns.append(pyarrow.nulls(batch.num_rows, field.type))
        except pyarrow.ArrowException as error:
            raise ValueError(f"column {field.name} of {path} is no {field.type}: {error}") from error
    return pyarrow.RecordBatch.from_arrays(columns, schema=schema)


@contextlib.contextmanager
def _named(path: str, kind: str) -> Iterator[None]:
    import pyarrow

    try:
        yield
    except pyarrow.ArrowException as error:
        raise ValueError(f"{path} cannot be read as {kind}: {error}") from error


def _parquet(system: Any, split: Any, schema: Any) -> Iterator[Any]:
    """A row group belongs to the range that its middle lies in, as in Spark."""
    import pyarrow.parquet

    with system.open_input_file(split.path) as file, pyarrow.parquet.ParquetFile(file) as stored:
        groups = [
            number
            for number in range(stored.num_row_groups)
            if split.start <= _middle(stored.metadata.row_group(number)) < split.stop
        ]
        columns = [name for name in schema.names if name in stored.schema_arrow.names]
        if groups:
            yield from stored.iter_batches(row_groups=groups, columns=columns)


def _middle(group: Any) -> int:
    columns = [group.column(number) for number in range(group.num_columns)]
    first = min(column.dictionary_page_offset or column.data_page_offset for column in columns)
    return int(first + sum(column.total_compressed_size for column in columns) // 2)


def _chunks(system: Any, split: Any, options: Any) -> Iterator[bytes]:
    """The lines that begin in a split, some at a time; all of them at once where values may have line ends."""
    if split.start == 0 and split.stop == split.size:  # it may be compressed
        with _stream(system, split.path) as stream:
            if options.multi_line:
                yield stream.read()
                return
            while lines := _lines(stream, _CHUNK):
                yield lines
        return
    with io.BufferedReader(system.open_input_file(split.path)) as file:
        _to_line(file, split.start)
        while file.tell() < split.stop:
            yield _lines(file, min(_CHUNK, split.stop - file.tell()))


def _stream(system: Any, path: str) -> Any:
    """Of a file's bytes, without its compression."""
    return io.BufferedReader(system.open_input_stream(path))


def _to_line(file: Any, start: int) -> None:
    """Go to where the first line begins that begins at `start` or behind it."""
    if start:
        file.seek(start - 1)
        file.readline()


def _lines(stream: Any, size: int) -> bytes:
    """So many bytes, and what is left of their last line. No more where they end with a line."""
    data = bytes(stream.read(size))
    return data if not data or data.endswith(b"\n") else data + bytes(stream.readline())


def _header(sample: bytes, options: Any) -> list[str] | None:
    """Names of the columns; None where the file does not say."""
    import csv

    if not options.header:
        return None
    first = sample.partition(b"\n")[0].decode("utf-8-sig").rstrip("\r")
    return next(csv.reader([first], delimiter=options.delimiter), [])


def _csv(lines: bytes, options: Any, names: list[str] | None, schema: Any) -> Any:
    """A table. Without a schema types are inferred, and names where there are none; a header is passed over then."""
    import pyarrow.csv

    is_sample = schema is None
    types = {} if is_sample else {field.name: field.type for field in schema}
    return pyarrow.csv.read_csv(
        io.BytesIO(lines),
        read_options=pyarrow.csv.ReadOptions(
            column_names=names,
            autogenerate_column_names=names is None,
            skip_rows=1 if is_sample and options.header else 0,
            block_size=max(1 << 20, len(lines)),
        ),
        parse_options=pyarrow.csv.ParseOptions(
            delimiter=options.delimiter, newlines_in_values=options.multi_line, ignore_empty_lines=True
        ),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=types,
            include_columns=[name for name in names or () if name in types],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _json(lines: bytes, schema: Any) -> Any:
    import pyarrow
    import pyarrow.json

    if not lines.strip():
        return None
    if schema is not None:  # days are written as text, and pyarrow takes numbers for them; `fitted` makes days of them
        fields = [one.with_type(pyarrow.string()) if pyarrow.types.is_date(one.type) else one for one in schema]
        schema = pyarrow.schema(fields)
    return pyarrow.json.read_json(
        io.BytesIO(lines),
        read_options=pyarrow.json.ReadOptions(block_size=max(1 << 20, len(lines))),
        parse_options=pyarrow.json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="infer" if schema is None else "ignore"
        ),
    )


def _text(lines: bytes) -> Any:
    import pyarrow

    rows = lines.removesuffix(b"\n").split(b"\n")
    return pyarrow.table({"value": pyarrow.array([row.removesuffix(b"\r").decode() for row in rows], pyarrow.string())})
