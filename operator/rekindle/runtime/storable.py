"""A stage's result as something that can be stored: in the right partitions, of types that files hold, with hashes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rekindle.pipeline.distribution import Assigned, Keyed, Pointwise
from rekindle.pipeline.stage import Stage
from rekindle.runtime.errors import PipelineMisuse
from rekindle.runtime.task import HASH_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType


def parsed_schema(text: str) -> StructType:
    """From Spark's JSON, as journals have it."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(text))


def distribute(frame: DataFrame, stage: Stage) -> DataFrame:
    """`frame` with the exchange that the stage's distribution asks for, which is Spark's own."""
    match stage.distribution:
        case Pointwise() | Assigned():
            return frame
        case Keyed(keys=keys) as keyed:
            missing = [key for key in keys if key not in frame.columns]
            if missing:
                raise PipelineMisuse(
                    f"stage {stage.name}: partition_by names {missing[0]!r}, its result has {frame.columns}",
                    remedy="partition by columns of the DataFrame the stage returns",
                    stage=stage.name,
                )
            return by_keys(frame, keyed)
        case other:
            return frame.repartition(other.partitions)


def by_keys(frame: DataFrame, keyed: Keyed) -> DataFrame:
    """`frame` hash partitioned."""
    return frame.repartition(keyed.partitions, *(column(frame, key) for key in keyed.keys))


def check_schema(stage: str, schema: StructType) -> None:
    """Raises PipelineMisuse for a result of a stage that cannot be stored, naming the column and the remedy."""
    if not schema.fields:
        raise PipelineMisuse(
            f"stage {stage}: its result has no columns, so its rows cannot be stored",
            remedy="return at least one column",
            stage=stage,
        )
    seen: set[str] = set()
    for field in schema.fields:
        if field.name.lower() in seen:
            raise PipelineMisuse(
                f"stage {stage}: its result has two columns {field.name!r}",
                remedy="rename or drop one (after a join: join on the column's name, or use .alias)",
                stage=stage,
            )
        seen.add(field.name.lower())
        if _unsupported(field.dataType) or _without_own_fields(field.dataType):
            raise PipelineMisuse(
                f"stage {stage}: column {field.name!r} of type {field.dataType.simpleString()} cannot be stored",
                remedy="cast it (for example to string or binary) or drop it before the stage returns",
                stage=stage,
            )


def check_written_as(stage: Stage, schema: StructType, file_format: str) -> None:
    """Raises PipelineMisuse for a result that files of this format cannot hold."""
    from pyspark.sql.types import ArrayType, BinaryType, DayTimeIntervalType, MapType, StructType

    textless = ArrayType | MapType | StructType | BinaryType | DayTimeIntervalType
    for field in schema.fields:
        if file_format == "csv" and isinstance(field.dataType, textless):
            raise PipelineMisuse(
                f"sink {stage.name}: column {field.name!r} of type {field.dataType.simpleString()} cannot be written "
                "as csv",
                remedy="make it a string (to_json, hex, CAST AS string), or write parquet",
                stage=stage.name,
            )


def column(frame: DataFrame, name: str) -> Column:
    """A column by its exact name, whatever characters it has."""
    return frame[f"`{name.replace('`', '``')}`"]


def with_hashes(frame: DataFrame) -> tuple[DataFrame, bool]:
    """`frame` with a hash of each row in a last column, and whether its types allow one.

    Spark's hashes skip nulls and know no nesting, so (null, 1) and (1, null) would be equal, and [[1], [2]] and
    [[1, 2]]: which columns are null is hashed too, and nested values as text beside. Whether a plan says that a column
    may be null makes no difference. Nor do names and types: they are for `signature`.
    """
    from pyspark.sql import functions

    if not frame.columns or any(_unhashable(field.dataType) for field in frame.schema.fields):
        return frame, False
    columns = [column(frame, name) for name in frame.columns]
    nulls = [column.isNull() for column in columns]
    nested = [field.name for field in frame.schema.fields if len(list(_nested(field.dataType))) > 1]
    texts = [column(frame, name).cast("string") for name in nested]
    return frame.select(*columns, functions.xxhash64(*columns, *nulls, *texts).alias(HASH_COLUMN)), True


def signature(schema: StructType) -> str:
    """A hash of the names and types of columns, of nested ones too. What may be null does not count, nor metadata:
    plans of one program may differ in that."""
    return hashlib.sha256(json.dumps(_described(schema)).encode()).hexdigest()[:16]


def _described(data_type: DataType) -> list[object]:
    from pyspark.sql.types import ArrayType, MapType, StructType

    match data_type:
        case StructType(fields=fields):
            return ["struct", *([field.name, _described(field.dataType)] for field in fields)]
        case ArrayType(elementType=element):
            return ["array", _described(element)]
        case MapType(keyType=key, valueType=value):
            return ["map", _described(key), _described(value)]
        case plain:
            return [plain.simpleString()]


def _nested(data_type: DataType) -> Iterable[DataType]:
    from pyspark.sql.types import ArrayType, MapType, StructType

    yield data_type
    if isinstance(data_type, StructType):
        for field in data_type.fields:
            yield from _nested(field.dataType)
    elif isinstance(data_type, ArrayType):
        yield from _nested(data_type.elementType)
    elif isinstance(data_type, MapType):
        yield from _nested(data_type.keyType)
        yield from _nested(data_type.valueType)


def _unsupported(data_type: DataType) -> bool:
    names = {
        "calendarinterval",
        "interval",
        "void",
        "variant",
        "udt",
        "yearmonthinterval",
        "geometry",
        "geography",
    }
    return any(_type_name(nested) in names for nested in _nested(data_type))


def _without_own_fields(data_type: DataType) -> bool:
    """Whether a struct in it has no fields, or two whose names differ in case at most: no file can hold those."""
    from pyspark.sql.types import StructType

    structs = (nested for nested in _nested(data_type) if isinstance(nested, StructType))
    return any(not one.names or len({name.lower() for name in one.names}) < len(one.names) for one in structs)


def _unhashable(data_type: DataType) -> bool:
    return any(_type_name(nested) in {"map", "variant"} for nested in _nested(data_type))


def _type_name(data_type: DataType) -> str:
    return type(data_type).__name__.removesuffix("Type").lower().replace("userdefined", "udt").replace("null", "void")
