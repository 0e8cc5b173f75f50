"""A commit that was not reached has written nothing; one that raised may have."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.datasource import DataSource, DataSourceWriter
from pyspark.sql.types import StructType

from rekindle.pipeline import DataSourceSink
from rekindle.runtime.data_source_sink import commit
from rekindle.runtime.publication import WriteFailed


class Away(DataSource):
    """`at` says when it raises."""

    def writer(self, schema: Any, overwrite: bool) -> Any:
        if self.options["at"] == "writer":
            raise OSError("the table cannot be looked at")
        return "none" if self.options["at"] == "type" else AwayWriter()


class AwayWriter(DataSourceWriter):
    def write(self, iterator: Any) -> Any:
        raise NotImplementedError

    def commit(self, messages: list[Any]) -> None:
        raise OSError("the connection was lost")


@pytest.mark.parametrize(
    ("at", "said", "has_begun"),
    [
        ("writer", "cannot be looked at", False),
        ("type", "returned str", False),
        ("commit", "connection was lost", True),
    ],
)
def test_whether_it_has_begun_is_told_with_what_it_raised(at, said, has_begun):
    stage: Any = SimpleNamespace(name="out")
    with pytest.raises(WriteFailed, match=said) as failed:
        commit(stage, DataSourceSink(Away, {"at": at}), StructType(), "store/1", [])
    assert failed.value.has_begun is has_begun
