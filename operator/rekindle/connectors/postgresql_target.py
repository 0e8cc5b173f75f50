"""The tables of a PostgreSQL sink: the one that rows are to be in, and those that they are in before."""

from __future__ import annotations

import hashlib
import re
import uuid
from dataclasses import dataclass
from typing import Any

from rekindle.connectors.postgresql_types import cast, takes
from rekindle.connectors.sql_names import quoted

Columns = tuple[tuple[str, str], ...]
"""Names, and types as PostgreSQL spells them."""

_TABLES = ("r", "p")
"""What rows can be written to, of `pg_class.relkind`: tables, and partitioned ones."""
_KIND = """
    SELECT c.relkind::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relname = $2
"""
_COLUMNS = """
    SELECT a.attname::text, format_type(a.atttypid, a.atttypmod),
        a.attnotnull AND NOT a.atthasdef AND a.attidentity::text = '',
        a.attgenerated::text <> '' OR a.attidentity::text = 'a'
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relname = $2 AND a.attnum > 0 AND NOT a.attisdropped
    ORDER BY a.attnum
"""


@dataclass(frozen=True, slots=True)
class Target:
    """A table that rows of `columns` are to be in.

    Attributes:
        is_there: whether it was when it was looked for.
    """

    schema: str
    table: str
    columns: Columns
    is_there: bool

    @classmethod
    def found(cls, cursor: Any, name: str, columns: Columns) -> Target:
        """`table`, which is in the schema that the database looks in first, or `schema.table`. Raises ValueError."""
        schema, _, table = name.rpartition(".")
        if not table or "." in schema or name.startswith("."):
            raise ValueError(f"Postgresql has table={name!r}: name the table, such as totals or shop.totals")
        if not schema:
            schema = _value(cursor, "SELECT current_schema()::text")
            if schema is None:
                raise ValueError(f"the database has no schema to look for {table} in: say table='schema.{table}'")
        is_there = _value(cursor, _KIND, schema, table) is not None
        return cls(schema, table, columns, is_there)

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"

    @property
    def sql(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.table)}"

    def check(self, cursor: Any) -> bool:
        """Whether it is there. Raises ValueError where it does not take such rows."""
        kind = _value(cursor, _KIND, self.schema, self.table)
        if kind is None:
            return False
        if kind not in _TABLES:
            raise ValueError(f"{self} is no table: rows are written to tables")
        there = self._columns_there(cursor)
        for name, written in self.columns:
            if name not in there:
                raise ValueError(f"the table {self} has no column {name}, and the sink has: it is of type {written}")
            column, _, is_closed = there[name]
            if is_closed:
                raise ValueError(f"the column {name} of the table {self} is generated: leave it out of the sink")
            if not takes(column, written):
                raise ValueError(
                    f"the column {name} of the table {self} is of type {column}, and that of the sink {written}, which "
                    "it does not hold: cast one of them"
                )
        ours = dict(self.columns)
        for name, (column, must, _) in there.items():
            if must and name not in ours:
                raise ValueError(f"the column {name} {column} of the table {self} must have a value: the sink has none")
        return True

    def check_rights(self, cursor: Any, *, overwrite: bool) -> None:
        """Raises ValueError where the user may not write to it, or not make it."""
        if not self.is_there:
            _check_schema(cursor, self.schema, "where the table is to be")
            return
        for right in ("INSERT", "DELETE") if overwrite else ("INSERT",):
            if not _value(cursor, "SELECT has_table_privilege($1, $2)", self.sql, right):
                raise ValueError(f"the user may not write to the table {self}: grant {right} on it")

    def check_empty(self, cursor: Any) -> None:
        """Raises ValueError where it has rows."""
        if self.check(cursor) and _value(cursor, f"SELECT 1::bigint FROM {self.sql} LIMIT 1") is not None:
            raise ValueError(
                f"the table {self} has rows: empty it, or say errorIfExists=false to add to them, or mode='overwrite'"
            )

    def make(self, cursor: Any) -> None:
        columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in self.columns)
        cursor.execute(f"CREATE TABLE {self.sql} ({columns})")

    def insert(self, cursor: Any, schema: str, table: str) -> None:
        """All rows of that table."""
        there = self._columns_there(cursor)
        names = ", ".join(quoted(name) for name, _ in self.columns)
        values = ", ".join(quoted(name) + cast(there[name][0], written) for name, written in self.columns)
        cursor.execute(f"INSERT INTO {self.sql} ({names}) SELECT {values} FROM {quoted(schema)}.{quoted(table)}")

    def _columns_there(self, cursor: Any) -> dict[str, tuple[str, bool, bool]]:
        """Of each column its type, whether it must be given a value, and whether it may not."""
        cursor.execute(_COLUMNS, (self.schema, self.table))
        return {name: (kind, must, is_closed) for name, kind, must, is_closed in cursor.fetchall()}


@dataclass(frozen=True, slots=True)
class Staging:
    """The tables that a run's attempts write.

    Attributes:
        schema: they are in that.
        prefix: of their names, the same for all runs of the sink.
        application, version: what the run's commit is known again by.
        has_ledger: whether it is to be known again.
    """

    schema: str
    prefix: str
    application: str
    version: int
    has_ledger: bool

    @classmethod
    def of(cls, target: Target, schema: str | None, application: str | None, version: int) -> Staging:
        """In `schema`, or beside the target. Where there is no `application` the run is like no other."""
        name = uuid.uuid4().hex if application is None else application
        digest = hashlib.sha256(f"{name}\n{target}".encode()).hexdigest()
        return cls(schema or target.schema, f"rekindle_{digest[:12]}_", name, version, application is not None)

    def new_name(self, partition: int) -> str:
        """Of a table that no other attempt has."""
        return f"{self.prefix}{self.version}_{partition}_{uuid.uuid4().hex[:16]}"

    def check(self, cursor: Any) -> None:
        """Raises ValueError where no table can be made in its schema."""
        _check_schema(cursor, self.schema, "where attempts write their tables; or say stagingSchema")

    def settled(self, cursor: Any, version: int) -> list[str]:
        """Names of the tables of all runs up to `version`."""
        cursor.execute(
            "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = $1 AND starts_with(c.relname::text, $2) AND c.relkind = 'r'",
            (self.schema, self.prefix),
        )
        named = re.compile(rf"{self.prefix}(\d+)_\d+_[0-9a-f]+")
        found = {name: named.fullmatch(name) for (name,) in cursor.fetchall()}
        return sorted(name for name, match in found.items() if match and int(match[1]) <= version)


def _check_schema(cursor: Any, schema: str, why: str) -> None:
    if _value(cursor, "SELECT 1::bigint FROM pg_namespace WHERE nspname = $1", schema) is None:
        raise ValueError(f"the database has no schema {schema}: make it, {why}")
    if not _value(cursor, "SELECT has_schema_privilege($1, 'CREATE')", schema):
        raise ValueError(f"the user may not make tables in the schema {schema}: grant CREATE on it, {why}")


def _value(cursor: Any, sql: str, *given: str) -> Any:
    """The first value of the first row; None where there is none."""
    cursor.execute(sql, given or None)
    row = cursor.fetchone()
    return None if row is None else row[0]
