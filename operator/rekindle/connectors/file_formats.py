"""How the rows of a range of a file are read, with pyarrow."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator, Mapping
from typing import Any

from rekindle.connectors.column_names import called_as

_CHUNK = 8 << 20
"""Bytes of lines that are read at a time."""
_SAMPLE = 1 << 20
"""Bytes that columns and their types are inferred from."""
_ZONE = r"[ T]\d\d\S*(Z|[+-]\d\d(:?\d\d)?)$"
"""How text of a time with a zone ends, and a day does not: 05:00Z, 05:00+02:00, but 2013-01-31."""


def schema_of(system: Any, path: str, options: Any) -> Any:
    """A pyarrow schema, of a file's own columns. Raises ValueError where it is no such file."""
    import pyarrow
    import pyarrow.parquet

    if options.format == "text":
        return pyarrow.schema([("value", pyarrow.string())])
    with _named(path, options.format):
        if options.format == "parquet":
            with system.open_input_file(path) as file, _stored(file) as stored:
                return _instants(stored)
        with _stream(system, path) as stream:
            sample = _lines(stream, _SAMPLE)
        names = _header(sample, options) if options.format == "csv" else None
        if names and not sample.partition(b"\n")[2].strip():  # Spark writes such a file for a partition without rows
            return pyarrow.schema((name, pyarrow.string()) for name in names)
        table = _json(sample, None) if options.format == "json" else _csv(sample, options, names, None)
        if table is None:
            raise ValueError(f"the first MiB of {path} has no row to tell its columns by: name them (schema=...)")
        return pyarrow.schema(
            field.with_type(pyarrow.string()) if _is_unknown(field.type) else field for field in table.schema
        )


def _is_unknown(kind: Any) -> bool:
    """Whether no type of Spark's can be inferred: there is no value, or it is a time of day."""
    import pyarrow

    return bool(pyarrow.types.is_null(kind) or pyarrow.types.is_time(kind))


def batches(system: Any, split: Any, options: Any, schema: Any) -> Iterator[Any]:
    """Record batches of the rows that begin in a split, with those columns of `schema` that the file has."""
    with _named(split.path, options.format):
        if options.format == "parquet":
            yield from _parquet(system, split, schema)
            return
        names = list(schema.names)
        if options.format == "csv" and options.header:
            with _stream(system, split.path) as stream:
                names = called_as(_header(stream.readline(), options) or names, names, split.path)
        for number, lines in enumerate(_chunks(system, split, options)):
            if options.format == "csv":
                if options.header and number == 0 and split.start == 0:
                    lines = lines.partition(b"\n")[2]
                table = _csv(lines, options, names, schema) if lines else None
            else:
                table = _json(lines, schema) if options.format == "json" else _text(lines, names)
            if table is not None:
                yield from table.to_batches()


def fitted(batch: Any, schema: Any, keys: Mapping[str, str | None], path: str) -> Any:
    """A batch with exactly the columns of `schema`: what a file has not is null, or said by its folders' names.

    Raises ValueError that names the column for what is of another type.
    """
    import pyarrow

    columns = []
    for field in schema:
        try:
            if field.name in keys:
                value = _cast(pyarrow.array([keys[field.name]], pyarrow.string()), field.type)[0]
                columns.append(pyarrow.repeat(value, batch.num_rows))
            elif field.name in batch.schema.names:
                columns.append(_cast(batch.column(field.name), field.type))
            else:
                columns.append(pyarrow.nulls(batch.num_rows, field.type))
        except pyarrow.ArrowException as error:
            raise ValueError(f"column {field.name} of {path} is no {field.type}: {error}") from error
    return pyarrow.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: Any, wanted: Any) -> Any:
    """Times are read from text with a zone or without one; those without are in UTC."""
    import pyarrow
    import pyarrow.compute

    types = pyarrow.types
    if not (types.is_timestamp(wanted) and types.is_string(column.type)):
        return column.cast(wanted)
    has_zone = pyarrow.compute.match_substring_regex(column, _ZONE)
    instants = pyarrow.timestamp("us", "UTC")
    zoned = pyarrow.compute.if_else(has_zone, column, None).cast(instants)
    plain = pyarrow.compute.if_else(has_zone, None, column).cast(pyarrow.timestamp("us"))
    return pyarrow.compute.coalesce(zoned, plain.cast(instants)).cast(wanted)


@contextlib.contextmanager
def _named(path: str, kind: str) -> Iterator[None]:
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, UnicodeError, OSError) as error:
        raise ValueError(f"{path} cannot be read as {kind}: {error}") from error


def _parquet(system: Any, split: Any, schema: Any) -> Iterator[Any]:
    """A row group belongs to the range that its middle lies in, as in Spark."""
    with system.open_input_file(split.path) as file, _stored(file) as stored:
        groups = [
            number
            for number in range(stored.num_row_groups)
            if split.start <= _middle(stored.metadata.row_group(number)) < split.stop
        ]
        own = stored.schema_arrow.names
        named = dict(zip(own, called_as(own, schema.names, split.path), strict=True))
        columns = [name for name in own if named[name] in schema.names]
        for batch in stored.iter_batches(row_groups=groups, columns=columns) if groups else ():
            yield batch.rename_columns([named[name] for name in batch.schema.names])


def _stored(file: Any) -> Any:
    import pyarrow.parquet

    return pyarrow.parquet.ParquetFile(file, coerce_int96_timestamp_unit="us")  # ns end in the year 2262


def _instants(stored: Any) -> Any:
    """Columns of a Parquet file. Times that are 96 bits long are instants, as Spark writes them and reads them."""
    import pyarrow

    long = {one.path for one in map(stored.schema.column, range(len(stored.schema))) if one.physical_type == "INT96"}
    instant = pyarrow.timestamp("us", "UTC")
    schema = stored.schema_arrow.remove_metadata()
    return pyarrow.schema(field.with_type(instant) if field.name in long else field for field in schema)


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

    import pyarrow

    if not options.header:
        return None
    first = sample.partition(b"\n")[0].decode("utf-8-sig").rstrip("\r")
    names = next(csv.reader([first], delimiter=options.delimiter), [])
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise pyarrow.ArrowInvalid(f"its first line names {', '.join(twice)} twice")
    return names


def _csv(lines: bytes, options: Any, names: list[str] | None, schema: Any) -> Any:
    """A table. Without a schema types are inferred, and names where there are none; a header is passed over then."""
    import pyarrow.csv

    is_sample = schema is None
    types = {} if is_sample else {field.name: field.type for field in _times_as_text(schema)}
    try:
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
                null_values=[""],  # as in Spark: NA and NaN are values
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pyarrow.ArrowInvalid as error:
        called = dict(enumerate(names or []))
        said = re.sub(r"CSV column #(\d+)", lambda at: f"column {called.get(int(at[1]), at[1])}", str(error))
        raise pyarrow.ArrowInvalid(said) from error


def _json(lines: bytes, schema: Any) -> Any:
    import pyarrow
    import pyarrow.json

    if not lines.strip():
        return None
    if schema is not None:  # days are written as text, and pyarrow takes numbers for them; `fitted` makes days of them
        fields = [
            one.with_type(pyarrow.string()) if pyarrow.types.is_date(one.type) else one
            for one in _times_as_text(schema)
        ]
        schema = pyarrow.schema(fields)
    return pyarrow.json.read_json(
        io.BytesIO(lines),
        read_options=pyarrow.json.ReadOptions(block_size=max(1 << 20, len(lines))),
        parse_options=pyarrow.json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="infer" if schema is None else "ignore"
        ),
    )


def _times_as_text(schema: Any) -> Any:
    """So that `fitted` makes times of them: pyarrow's readers want a zone in all values, or in none."""
    import pyarrow

    is_time = pyarrow.types.is_timestamp
    return pyarrow.schema(one.with_type(pyarrow.string()) if is_time(one.type) else one for one in schema)


def _text(lines: bytes, names: list[str]) -> Any:
    """Under the name that a schema of one column gives it."""
    import pyarrow

    rows = lines.removesuffix(b"\n").split(b"\n")
    name = names[0] if len(names) == 1 else "value"
    return pyarrow.table({name: pyarrow.array([row.removesuffix(b"\r").decode() for row in rows], pyarrow.string())})
