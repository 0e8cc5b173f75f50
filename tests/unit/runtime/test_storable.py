"""What a schema counts for in a digest: names and types, as deep as they go, and nothing that a plan may say or not."""

from __future__ import annotations

import pytest
from pyspark.sql import types as T  # noqa: N812

from rekindle.runtime.storable import signature

PLAIN: list[T.DataType] = [
    T.BooleanType(),
    T.ByteType(),
    T.IntegerType(),
    T.LongType(),
    T.FloatType(),
    T.DoubleType(),
    T.DateType(),
    T.TimestampType(),
    T.TimestampNTZType(),
    T.StringType(),
    T.StringType("UTF8_LCASE"),
    T.BinaryType(),
    T.DecimalType(10, 2),
    T.DecimalType(10, 3),
    T.DecimalType(11, 2),
    T.DayTimeIntervalType(0, 3),
    T.DayTimeIntervalType(0, 2),
]


def of(data_type: T.DataType, name: str = "a", nullable: bool = True, **metadata: str) -> str:
    return signature(T.StructType([T.StructField(name, data_type, nullable, metadata)]))


@pytest.mark.requirement("S7-7")
def test_all_names_and_types_differ_however_deep_they_are():
    nested = [
        *PLAIN,
        *(T.ArrayType(one) for one in PLAIN),
        *(T.StructType([T.StructField("x", one)]) for one in PLAIN),
        *(T.StructType([T.StructField("y", one)]) for one in PLAIN),
        *(T.MapType(one, T.StringType()) for one in PLAIN),
        *(T.MapType(T.LongType(), T.ArrayType(one)) for one in PLAIN),
    ]
    assert len({of(one) for one in nested}) == len(nested)
    assert of(T.LongType()) != of(T.LongType(), "A")


def test_a_name_cannot_pass_for_another_column():
    one = T.StructType([T.StructField("a:bigint,b", T.LongType())])
    assert signature(one) != signature(T.StructType([T.StructField(name, T.LongType()) for name in "ab"]))


def test_columns_in_another_order_are_other_columns():
    fields = [T.StructField(name, T.LongType()) for name in "ab"]
    assert signature(T.StructType(fields)) != signature(T.StructType(fields[::-1]))


def test_what_may_be_null_and_what_is_said_beside_do_not_count():
    def deep(nullable: bool) -> T.DataType:
        values = T.ArrayType(T.LongType(), containsNull=nullable)
        inner = T.MapType(T.StringType(), values, valueContainsNull=nullable)
        return T.StructType([T.StructField("x", inner, nullable, {"said": str(nullable)})])

    assert of(deep(True), nullable=True, comment="of one plan") == of(deep(False), nullable=False)
