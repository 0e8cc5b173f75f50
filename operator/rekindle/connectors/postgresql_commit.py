"""The commit of a PostgreSQL sink.

One transaction looks in the ledger whether the run is committed, takes the rows of all staging tables, and adds the run
to the ledger. An advisory lock lets one driver at a time do this for a table, so of two at the same instant the second
finds what the first has done.

Staging tables go after that. Whatever the ledger has will not be committed again, so all tables of that run and of
those before it are of no use any more, also those of attempts that still run: these have not won.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rekindle.connectors.postgresql_connection import Server, autocommitted, transaction
from rekindle.connectors.postgresql_target import Staging, Target
from rekindle.connectors.sql_names import quoted

log = logging.getLogger(__name__)

_LEDGER = "rekindle_commits"
_LOCK_TIMEOUT = "600s"
"""For others that write to the target."""
_DROP_LOCK_TIMEOUT = "5s"
_DROP_SECONDS = 60.0


def commit(
    server: Server,
    target: Target,
    staging: Staging,
    written: Sequence[Any],
    *,
    overwrite: bool,
    refuses_rows: bool,
) -> None:
    """The rows of `written`, which are `StagedRows`, in their order; nothing, where the ledger has the run. Raises
    ValueError and LookupError where something does not fit, and the database's errors; nothing has changed then."""
    with transaction(server) as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")  # to see what was done before the lock
        cursor.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
        _lock(cursor, f"rekindle commit {target}")
        if is_known(cursor, target, staging):
            return
        _make_target(cursor, target, written)
        _check_written(cursor, target, staging, written)
        if refuses_rows:
            cursor.execute(f"LOCK TABLE {target.sql} IN SHARE ROW EXCLUSIVE MODE")
            target.check_empty(cursor)
        if overwrite:
            cursor.execute(f"DELETE FROM {target.sql}")
        for one in written:
            if one.table:
                target.insert(cursor, one.schema, one.table)
        if staging.has_ledger:
            _note(cursor, target, staging, sum(one.rows for one in written))


def is_known(cursor: Any, target: Target, staging: Staging) -> bool:
    """Whether the ledger has that run, or a later one."""
    known = _known(cursor, target, staging) if staging.has_ledger else None
    return known is not None and known >= staging.version


def drop_left_behind(server: Server, target: Target, staging: Staging, written: Sequence[Any]) -> None:
    """Drop the staging tables of the run that has been committed, and of those before it, as far as that can be done
    soon: what is left is dropped by the next run."""
    names = {(one.schema, one.table) for one in written if one.table}
    try:
        with _dropping(server) as cursor:
            names |= {(staging.schema, name) for name in staging.settled(cursor, staging.version)}
            _drop(cursor, sorted(names))
    except Exception as error:  # what is visible is right, whatever comes of it
        log.warning("table %s: staging tables of its last commit are left in %s: %s", target, staging.schema, error)


def drop(server: Server, names: Sequence[tuple[str, str]]) -> None:
    """Drop tables by schema and name, each where it is there. Raises the first error, after the others are gone."""
    with _dropping(server) as cursor:
        _drop(cursor, names)


@contextmanager
def _dropping(server: Server) -> Iterator[Any]:
    with autocommitted(server) as cursor:
        cursor.execute(f"SET lock_timeout = '{_DROP_LOCK_TIMEOUT}'")
        yield cursor


def _drop(cursor: Any, names: Sequence[tuple[str, str]]) -> None:
    deadline, failure = time.monotonic() + _DROP_SECONDS, None
    for schema, name in names:
        if time.monotonic() > deadline:
            raise failure or TimeoutError(f"{_DROP_SECONDS:.0f} seconds were not enough to drop {len(names)} tables")
        try:
            cursor.execute(f"DROP TABLE IF EXISTS {quoted(schema)}.{quoted(name)}")
        except Exception as error:
            failure = failure or error
    if failure is not None:
        raise failure


def _lock(cursor: Any, name: str) -> None:
    """Until the end of the transaction."""
    cursor.execute("SELECT 1::bigint FROM pg_advisory_xact_lock(hashtextextended($1, 0))", (name,))
    cursor.fetchall()


def _make_ledger(cursor: Any, target: Target) -> None:
    if _has_ledger(cursor, target):
        return
    _lock(cursor, f"rekindle ledger {target.schema}")  # two tables of a schema may have their first commits at once
    if not _has_ledger(cursor, target):
        cursor.execute(
            f"CREATE TABLE {_ledger(target)} (target text, application text, version bigint NOT NULL, "
            "row_count bigint NOT NULL, committed_at timestamptz NOT NULL DEFAULT now(), "
            "PRIMARY KEY (target, application))"
        )


def _ledger(target: Target) -> str:
    return f"{quoted(target.schema)}.{_LEDGER}"


def _has_ledger(cursor: Any, target: Target) -> bool:
    cursor.execute(
        "SELECT 1::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = $1 AND c.relname = $2",
        (target.schema, _LEDGER),
    )
    return bool(cursor.fetchall())


def _known(cursor: Any, target: Target, staging: Staging) -> int | None:
    """The last version that has been committed."""
    if not _has_ledger(cursor, target):
        return None
    cursor.execute(
        f"SELECT version FROM {_ledger(target)} WHERE target = $1 AND application = $2",
        (target.table, staging.application),
    )
    found = cursor.fetchone()
    return None if found is None else int(found[0])


def _note(cursor: Any, target: Target, staging: Staging, rows: int) -> None:
    _make_ledger(cursor, target)
    cursor.execute(
        f"INSERT INTO {_ledger(target)} (target, application, version, row_count) VALUES ($1, $2, $3, $4) "
        "ON CONFLICT (target, application) DO UPDATE "
        "SET version = excluded.version, row_count = excluded.row_count, committed_at = now()",
        (target.table, staging.application, staging.version, rows),
    )


def _make_target(cursor: Any, target: Target, written: Sequence[Any]) -> None:
    """Raises ValueError where it takes other rows, and LookupError where it was there and is not any more."""
    if target.check(cursor):
        return
    if any(one.into_existing for one in written):
        raise LookupError(
            f"the table {target} was there when its rows were written, and is gone: make it again. Nothing is lost, "
            "the rows are in staging tables"
        )
    target.make(cursor)


def _check_written(cursor: Any, target: Target, staging: Staging, written: Sequence[Any]) -> None:
    """Raises ValueError or LookupError where staging tables are not as their attempts have left them."""
    again = f"have it made again: rekindle rerun {staging.application.rpartition('/')[2]}"
    for number, one in enumerate(written):
        if one.columns != target.columns:
            raise ValueError(f"partition {number} for the table {target} was written with other columns: {again}")
        if not one.table:
            continue
        place = f"{one.schema}.{one.table}"
        cursor.execute("SELECT to_regclass($1)::text", (f"{quoted(one.schema)}.{quoted(one.table)}",))
        if cursor.fetchone()[0] is None:
            raise LookupError(f"the staging table {place} of partition {number} for {target} is gone: {again}")
        cursor.execute(f"SELECT count(*) FROM {quoted(one.schema)}.{quoted(one.table)}")
        (rows,) = cursor.fetchone()
        if rows != one.rows:
            raise ValueError(
                f"the staging table {place} of partition {number} for {target} has {rows:,} rows, and its task has "
                f"written {one.rows:,}: it was changed, or emptied by a crash of the server; {again}"
            )
