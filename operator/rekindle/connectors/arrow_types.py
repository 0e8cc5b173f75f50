"""Arrow's types of Spark's."""

from __future__ import annotations

import inspect
from typing import Any


def arrow_schema(schema: Any) -> Any:
    """The pyarrow schema that Spark expects of rows of `schema`; times are in UTC.

    PySpark 4.3 has to be told so and refuses them otherwise, and older ones take it for granted.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    convert: Any = to_arrow_schema
    told = {"timezone": "UTC"} if "timezone" in inspect.signature(convert).parameters else {}
    return convert(schema, **told)
