"""Tables and queries of PostgreSQL, read by ranges of a column.

    pipeline.read(
        "orders",
        Database,
        options={
            "url": "postgresql://reader@db.example/shop",
            "dbtable": "orders",
            "partitionColumn": "id",
            "numPartitions": 200,
        },
        partitions=16,
    )

Drivers and executors need pyarrow and adbc-driver-postgresql. Rows come as Arrow's batches, by PostgreSQL's COPY.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from rekindle.connectors.arrow_types import arrow_schema
from rekindle.connectors.database_ranges import Axis, asked_position, conditions, cuts, position
from rekindle.connectors.database_types import Selection, axis, fitted, found, selection, spark_schema
from rekindle.connectors.option_values import known_options
from rekindle.connectors.postgresql_connection import Server, read_only
from rekindle.connectors.sql_names import quoted

_OPTIONS = (
    "url", "dbtable", "query", "user", "password", "partitionColumn", "lowerBound", "upperBound", "numPartitions",
    "fetchsize", "queryTimeout", "sessionInitStatement",
)  # fmt: skip
_MOST_SPLITS = 1_000_000


@dataclass(frozen=True)
class DatabaseOptions:
    """What `options` say, checked.

    Attributes:
        server: that is asked.
        source: what rows are selected from, in SQL.
        column: of the ranges; None where all rows are one split.
        lower, upper: bounds of the ranges, as given; None where the server is asked.
        splits: how many ranges, at most.
        batch_rows: of a batch, at most; 0 is as many as the driver gives.
        seconds: a statement may take; 0 is no limit.
        initial: a statement that begins each connection.
    """

    server: Server
    source: str
    column: str | None = None
    lower: str | None = None
    upper: str | None = None
    splits: int = 1
    batch_rows: int = 0
    seconds: int = 0
    initial: str | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> DatabaseOptions:
        """Raises ValueError that names the option, and the remedy."""
        said = known_options("Database", options, _OPTIONS)
        column = said.get("partitioncolumn")
        for name in ("lowerBound", "upperBound", "numPartitions"):
            if name.lower() in said and not column:
                raise ValueError(f"Database has {name!r} and no 'partitionColumn': say which column is cut")
        if column and "numpartitions" not in said:
            raise ValueError(
                "Database has 'partitionColumn' and no 'numPartitions': say into how many splits it is cut"
            )
        return cls(
            server=Server.of_options("Database", said),
            source=_source(said.get("dbtable"), said.get("query")),
            column=column,
            lower=said.get("lowerbound"),
            upper=said.get("upperbound"),
            splits=_count(said, "numPartitions", 1, range(1, _MOST_SPLITS + 1)),
            batch_rows=_count(said, "fetchsize", 0, range(1 << 31)),
            seconds=_count(said, "queryTimeout", 0, range(1 << 21)),
            initial=said.get("sessioninitstatement"),
        )

    def ask(self) -> Any:
        """A cursor of a connection of its own, for a `with`. Raises as `read_only`."""
        return read_only(self.server, self.initial, self.seconds)


def _source(table: str | None, query: str | None) -> str:
    """What is behind FROM."""
    if bool(table) == bool(query):
        raise ValueError("Database needs one of the options 'dbtable' and 'query'")
    if table:
        return table
    assert query is not None
    return f"({query.strip().rstrip(';')}\n) AS source"  # the query may end with a comment


def _count(said: Mapping[str, str], name: str, default: int, allowed: range) -> int:
    text = said.get(name.lower(), str(default)).strip()
    if not text.isdecimal() or int(text) not in allowed:
        raise ValueError(f"Database has {name}={text!r}: it is a whole number, from {allowed[0]} to {allowed[-1]}")
    return int(text)


class DatabaseSplit(InputPartition):
    """The rows that meet a condition of SQL; all rows, where it is empty."""

    def __init__(self, condition: str) -> None:
        super().__init__(None)
        self.condition = condition

    def __repr__(self) -> str:
        return f"rows where {self.condition}" if self.condition else "all rows"


class Database(DataSource):
    """A table, or what a query selects. Each split is read as it is when it is read: the rows must not change."""

    secret_options = ("password",)

    @classmethod
    def name(cls) -> str:
        """Spark's name for it."""
        return "rekindle-database"

    def schema(self) -> Any:
        """What the server says of the columns. Raises ValueError for those that Spark has no type for."""
        return spark_schema(_columns(DatabaseOptions.parse(self.options)))

    def reader(self, schema: Any) -> DataSourceReader:
        """Reads the columns of `schema`. Raises ValueError for those that are not there, or cannot be read so."""
        options = DatabaseOptions.parse(self.options)
        own = _columns(options)
        counted = None
        if options.column is not None:
            column = found(options.column, own.names, "partitionColumn")
            options, counted = replace(options, column=column), axis(own.field(own.names.index(column)))
        return DatabaseReader(options, schema, selection(own, schema), counted)


class DatabaseReader(DataSourceReader):
    """Reads one schema of a source.

    Args:
        schema: of the rows, as Spark's.
        chosen: how its columns are selected.
        counted: what the partition column counts in; None where there is none.
    """

    def __init__(self, options: DatabaseOptions, schema: Any, chosen: Selection, counted: Axis | None) -> None:
        self._options, self._schema, self._chosen, self._axis = options, schema, chosen, counted

    def with_secrets(self, secrets: Mapping[str, str]) -> DatabaseReader:
        """The same, with the password that they have, or with none."""
        server = replace(
            self._options.server, password={name.lower(): value for name, value in secrets.items()}.get("password")
        )
        return DatabaseReader(replace(self._options, server=server), self._schema, self._chosen, self._axis)

    def partitions(self) -> list[InputPartition]:
        """The ranges, in their order. The server is asked for bounds that are not given."""
        options = self._options
        if self._axis is None or options.column is None:
            return [DatabaseSplit("")]
        bounds = _bounds(options, self._axis)
        between = cuts(*bounds, options.splits) if bounds else []
        try:
            ranges = conditions(quoted(options.column), self._axis, between)
        except OverflowError:
            raise ValueError(
                f"the bounds of partitionColumn={options.column!r} are no days of the years 1 to 9999: give others, as "
                "lowerBound and upperBound"
            ) from None
        return [DatabaseSplit(one) for one in ranges]

    def read(self, partition: Any) -> Iterator[Any]:
        """Record batches. Raises as `read_only`, and ValueError for values that do not fit into the schema."""
        schema = arrow_schema(self._schema)
        where = f" WHERE {partition.condition}" if partition.condition else ""
        with self._options.ask() as asked:
            asked.execute(f"SELECT {self._chosen.sql} FROM {self._options.source}{where}")
            for batch in asked.fetch_record_batch():
                rows = self._options.batch_rows or max(1, batch.num_rows)
                for start in range(0, batch.num_rows, rows):
                    yield fitted(batch.slice(start, rows), schema, self._chosen)


def _columns(options: DatabaseOptions) -> Any:
    """The Arrow schema of the source. Nothing is selected for that."""
    with options.ask() as asked:
        return asked.adbc_execute_schema(f"SELECT * FROM {options.source}")


def _bounds(options: DatabaseOptions, counted: Axis) -> tuple[int, int] | None:
    """Positions of the least value and the greatest, by the options or else by the server; None where there is none."""
    given = [
        _given(name, text, counted) for name, text in (("lowerBound", options.lower), ("upperBound", options.upper))
    ]
    lower, upper = given if None not in given else _asked(options, counted, given)
    if lower is None or upper is None:
        return None
    if lower > upper:
        raise ValueError(f"Database has lowerBound={options.lower!r} above upperBound={options.upper!r}: exchange them")
    return lower, upper


def _given(name: str, text: str | None, counted: Axis) -> int | None:
    try:
        return None if text is None else position(counted, text)
    except ValueError:
        raise ValueError(f"Database has {name}={text!r}: for this partitionColumn it is {counted.value}") from None


def _asked(options: DatabaseOptions, counted: Axis, given: list[int | None]) -> list[int | None]:
    """What is given, and else the least and the greatest value of the column."""
    assert options.column is not None
    name = quoted(options.column)
    extremes = f"SELECT min({name}) AS lower, max({name}) AS upper FROM {options.source}"
    places = ", ".join(asked_position(counted, end) for end in ("lower", "upper"))
    try:
        with options.ask() as asked:
            asked.execute(f"SELECT {places} FROM ({extremes}) AS extremes")
            (row,) = asked.fetchall()
    except ValueError as error:
        raise ValueError(f"{error}. Where the extremes of partitionColumn cannot be asked for, give bounds") from error
    return [asked if said is None else said for said, asked in zip(given, row, strict=True)]
