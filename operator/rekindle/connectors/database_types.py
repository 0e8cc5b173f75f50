"""Which columns of a database's are which of Spark's, and how their values are fetched.

What the driver has no type for in Arrow is not guessed at: it is refused by name, unless text is wanted. The server
makes the text then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from rekindle.connectors.database_ranges import Axis
from rekindle.connectors.sql_names import quoted

_LIKE_NUMBERS = ("money", "oid", "xid", "cid", "tid")
"""Their values come as integers, and mean something else."""
_MOST_DIGITS = 38
_PLAIN_NUMERIC = (38, 18)
"""Of `numeric` alone, as Spark reads it too."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What is selected of a source for rows of one schema.

    Attributes:
        columns: expressions of SQL, one for each column of the schema.
        doubts: (condition, what it says of a row) of rows that Arrow or Spark cannot hold.
    """

    columns: tuple[str, ...]
    doubts: tuple[tuple[str, str], ...]

    @property
    def sql(self) -> str:
        """The columns, and behind them the number of the first doubt that holds; null, where there is none."""
        when = " ".join(f"WHEN {condition} THEN {number}" for number, (condition, _) in enumerate(self.doubts))
        return ", ".join([*self.columns, f"CASE {when} END"] if when else self.columns)


def found(name: str, there: Sequence[str], what: str) -> str:
    """What a column is called there: upper and lower case do not count, as in Spark.

    Raises ValueError for one that is not there.
    """
    same = [one for one in there if one.lower() == name.lower()]
    if name in same or len(same) == 1:
        return name if name in same else same[0]
    near = get_close_matches(name, there, 1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ValueError(f"{what} names the column {name!r}: {hint}there are {', '.join(there)}")


def spark_schema(own: Any) -> Any:
    """Spark's schema of a source's Arrow schema. Raises ValueError that names what has no type in Spark."""
    from pyspark.sql.types import StructType

    twice = sorted({name for name in own.names if own.names.count(name) > 1})
    if twice:
        raise ValueError(f"it has several columns {twice[0]!r}: name them differently in the option 'query'")
    schema, refused = StructType(), []
    for field in own:
        kind = _spark_type(field)
        if kind is None:
            refused.append(field)
        else:
            schema = schema.add(field.name, kind)
    if refused:
        names = ", ".join(f"{field.name} ({_called(field)})" for field in refused)
        raise ValueError(
            f"there is no type of Spark's for {names}: leave them out in the option 'query', cast them there "
            f"({quoted(refused[0].name)}::text), or say STRING for them (schema=)"
        )
    return schema


def selection(own: Any, schema: Any) -> Selection:
    """How the columns of `schema` are selected of a source that has those of the Arrow schema `own`.

    Raises ValueError for a column that is not there, and for one that cannot be read as what it is wanted as.
    """
    import pyarrow

    columns, doubts = [], []
    for wanted in schema.fields:
        field = own.field(own.names.index(found(wanted.name, own.names, "the schema")))
        name, kind = quoted(field.name), wanted.dataType.simpleString()
        text = {"string": "text", "array<string>": "text[]"}.get(kind)
        if text and not _is_text(field.type):
            columns.append(f"CAST({name} AS {text})")
        elif _spark_type(field) is None:
            raise ValueError(
                f"the column {field.name} is of the type {_called(field)} and wanted as {kind}: say STRING for it, or "
                "cast it in the option 'query'"
            )
        else:
            columns.append(name)
            if _is_time(field.type):
                doubts.append((f"NOT isfinite({name})", f"column {field.name} has an infinite value"))
        if pyarrow.types.is_list(field.type) and kind.startswith("array"):
            doubts.append((f"array_ndims({name}) > 1", f"column {field.name} has an array of several dimensions"))
    return Selection(tuple(columns), tuple(doubts))


def fitted(batch: Any, schema: Any, chosen: Selection) -> Any:
    """A batch of what was selected, as one of the Arrow schema `schema`.

    Raises ValueError that names the column for a row that is in doubt, and for values that do not fit.
    """
    import pyarrow
    import pyarrow.compute

    if chosen.doubts:
        said = pyarrow.compute.min(batch.column(len(schema))).as_py()
        if said is not None:
            raise ValueError(
                f"{chosen.doubts[said][1]}: cast it in the option 'query', to text for one, or leave it out"
            )
    columns = []
    for number, field in enumerate(schema):
        try:
            column = _stored(batch.column(number)).cast(field.type)
        except pyarrow.ArrowException as error:
            raise ValueError(
                f"column {field.name} does not fit into {field.type}: {error}. Say another type for it (schema=), or "
                "cast it in the option 'query'"
            ) from error
        if not field.nullable and column.null_count:
            raise ValueError(f"column {field.name} has null, and the schema says that it has none")
        columns.append(column)
    return pyarrow.RecordBatch.from_arrays(columns, schema=schema)


def axis(field: Any) -> Axis:
    """What a partition column counts in. Raises ValueError for one that cannot be cut."""
    import pyarrow

    types = pyarrow.types
    if _called(field) == "numeric" or (types.is_integer(field.type) and _called(field) not in _LIKE_NUMBERS):
        return Axis.NUMBER
    if types.is_date(field.type):
        return Axis.DATE
    if types.is_timestamp(field.type):
        return Axis.TIME if field.type.tz is None else Axis.INSTANT
    raise ValueError(
        f"partitionColumn={field.name!r} is of the type {_called(field)}: name one of integers, dates or timestamps"
    )


def _called(field: Any) -> str:
    """The server's name of a column's type."""
    said = (field.metadata or {}).get(b"POSTGRESQL:type", str(field.type).encode())
    return str(said.decode())


def _spark_type(field: Any) -> Any:
    """None where there is none."""
    import pyarrow
    from pyspark.sql.types import ArrayType

    kind = field.type
    if not pyarrow.types.is_list(kind):
        return _element_type(_called(field), field)
    called = _called(field).removeprefix("_")
    element = _element_type(called, kind.value_field.with_metadata(field.metadata))
    return None if element is None else ArrayType(element)


def _element_type(called: str, field: Any) -> Any:
    import pyarrow
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StringType

    types, kind = pyarrow.types, field.type
    if called == "numeric":
        return _decimal(field)
    if called in ("uuid", "json", "jsonb"):
        return StringType()
    if called in _LIKE_NUMBERS or isinstance(kind, pyarrow.BaseExtensionType):
        return None
    is_known = types.is_boolean, types.is_integer, types.is_floating, _is_text, types.is_binary, _is_time
    return from_arrow_type(kind, prefer_timestamp_ntz=True) if any(is_one(kind) for is_one in is_known) else None


def _decimal(field: Any) -> Any:
    """Of `numeric(precision, scale)`, which a column's modifier has in its bits; None where Spark has not so many."""
    from pyspark.sql.types import DecimalType

    modifier = int((field.metadata or {}).get(b"POSTGRESQL:typmod", b"-1"))
    if modifier < 4:
        return DecimalType(*_PLAIN_NUMERIC)
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, ((modifier - 4) & 0x7FF ^ 0x400) - 0x400
    digits = max(precision - min(scale, 0), scale)
    return DecimalType(digits, max(scale, 0)) if digits <= _MOST_DIGITS else None


def _is_text(kind: Any) -> bool:
    import pyarrow

    return bool(pyarrow.types.is_string(kind.value_type if pyarrow.types.is_list(kind) else kind))


def _is_time(kind: Any) -> bool:
    import pyarrow

    return bool(pyarrow.types.is_date(kind) or pyarrow.types.is_timestamp(kind))


def _stored(column: Any) -> Any:
    """Without what Arrow calls an extension: numbers of many digits come as text."""
    import pyarrow

    if isinstance(column.type, pyarrow.BaseExtensionType):
        return column.storage
    if pyarrow.types.is_list(column.type) and isinstance(column.type.value_type, pyarrow.BaseExtensionType):
        return column.cast(pyarrow.list_(column.type.value_type.storage_type))
    return column
