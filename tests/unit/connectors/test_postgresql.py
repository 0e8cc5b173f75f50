"""A PostgreSQL table has each run once, whoever asks for its commit, and as often as that is."""

from __future__ import annotations

import datetime as dt
import logging
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from threading import Barrier, Event
from typing import Any

import pyarrow
import pytest
from pyspark import cloudpickle
from pyspark.sql import types
from pyspark.sql.types import ArrayType, DecimalType, LongType, StringType, StructType, TimestampType

from rekindle import connectors
from rekindle.connectors import postgresql_commit
from rekindle.connectors.arrow_types import arrow_schema
from rekindle.connectors.postgresql import Postgresql
from rekindle.connectors.postgresql_types import takes
from tests.postgres import PASSWORD, USER, Server, server

SCHEMA = StructType().add("n", "long").add("word", "string")


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    with server() as made:
        yield made


@pytest.fixture
def db(postgres: Server) -> Server:
    """With no table in it."""
    postgres.execute(
        "DROP SCHEMA public CASCADE; CREATE SCHEMA public; DROP SCHEMA IF EXISTS staging CASCADE; CREATE SCHEMA staging"
    )
    return postgres


@pytest.fixture(autouse=True)
def by_reference() -> Iterator[None]:
    """What is unpickled by value in the process that has pickled it gives the class the methods of the copy, of which
    none can be replaced here."""
    pickle: Any = cloudpickle
    was = "rekindle.connectors" in pickle.list_registry_pickle_by_value()
    if was:
        pickle.unregister_pickle_by_value(connectors)
    yield
    if was:
        pickle.register_pickle_by_value(connectors)


def writer(
    db: Server,
    version: int = 1,
    *,
    overwrite: bool = False,
    schema: Any = SCHEMA,
    user: str = USER,
    password: str | None = PASSWORD,
    **more: str,
) -> Any:
    options = {
        "url": db.uri(user, None),
        "table": "totals",
        "txnAppId": "store/out",
        "txnVersion": str(version),
        **more,
    }
    return Postgresql(options | ({} if password is None else {"password": password})).writer(schema, overwrite)


def write(made: Any, *numbers: int) -> Any:
    """By a copy of the writer, as an executor has it; one batch for each number."""
    batches = [pyarrow.RecordBatch.from_pydict({"n": [n], "word": [str(n)]}) for n in numbers]
    return sent(sent(made).write(iter(batches)))


def sent(what: Any) -> Any:
    loads: Any = cloudpickle.loads
    return loads(cloudpickle.dumps(what))


def rows(db: Server, table: str = "totals") -> list[int]:
    """In the order that they are stored in."""
    return [n for (n,) in db.execute(f"SELECT n FROM {table} ORDER BY ctid")]


def tables(db: Server, schema: str = "public") -> list[str]:
    return [
        name for (name,) in db.execute(f"SELECT relname::text FROM pg_stat_user_tables WHERE schemaname = '{schema}'")
    ]


def staged(db: Server, schema: str = "public") -> list[str]:
    return sorted(name for name in tables(db, schema) if name not in ("totals", "rekindle_commits"))


def test_nothing_is_in_the_table_before_the_commit_and_all_is_after_it(db):
    made = writer(db)
    messages = [write(made, 3, 1), write(made), write(made, 2)]
    assert "totals" not in tables(db)
    assert [one.rows for one in messages] == [2, 0, 1]
    made.commit(messages)
    assert rows(db) == [3, 1, 2], "in the order of the partitions"
    assert sorted(tables(db)) == ["rekindle_commits", "totals"]
    assert db.execute("SELECT target, application, version, row_count FROM rekindle_commits") == [
        ("totals", "store/out", 1, 3)
    ]


@pytest.mark.requirement("S5-7")
def test_two_attempts_write_one_partition_at_once_and_one_is_committed(db):
    """Each is in the midst of its rows when the other is."""
    made, both = writer(db), Barrier(2, timeout=60)

    def batches() -> Iterator[Any]:
        for n in (1, 2):
            both.wait()
            yield pyarrow.RecordBatch.from_pydict({"n": [n], "word": ["a"]})

    with ThreadPoolExecutor(2) as attempts:
        won, lost = attempts.map(lambda attempt: sent(made).write(batches()), range(2))
    assert staged(db) == sorted([won.table, lost.table])
    made.abort([lost])
    assert staged(db) == [won.table]
    made.commit([won])
    assert (rows(db), staged(db)) == ([1, 2], [])


@pytest.mark.requirement("S5-8")
def test_a_commit_that_is_asked_for_again_changes_nothing(db):
    made = writer(db)
    messages = [write(made, 1), write(made, 2)]
    made.commit(messages)
    writer(db).commit(messages)
    again = writer(db)
    again.commit([write(again, 7)])  # parts of it were made again meanwhile
    assert (rows(db), staged(db)) == ([1, 2], [])


@pytest.mark.parametrize("version", [0, 1])
def test_the_first_number_of_a_run_is_known_again_too(db, version):
    made = writer(db, version)
    messages = [write(made, 1)]
    made.commit(messages)
    made.commit(messages)
    assert rows(db) == [1]


@pytest.mark.requirement("S5-8")
def test_of_two_drivers_that_commit_at_the_same_instant_one_does_nothing(db, monkeypatch):
    """The first has looked into the ledger, and holds the lock until the other has asked for it."""
    one, other = writer(db), writer(db)
    mine, theirs = [write(one, 1)], [write(other, 2)]
    is_in, checked = Event(), postgresql_commit._check_written

    def slowly(*what: Any) -> None:
        checked(*what)
        if not is_in.is_set():
            is_in.set()
            wait_for(db, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")

    monkeypatch.setattr(postgresql_commit, "_check_written", slowly)
    with ThreadPoolExecutor(2) as drivers:
        first = drivers.submit(one.commit, mine)
        assert is_in.wait(60)
        second = drivers.submit(other.commit, theirs)
        first.result(120)
        second.result(120)
    assert (rows(db), staged(db)) == ([1], [])


def wait_for(db: Server, count: str) -> None:
    pause = Event()
    for _ in range(600):
        if db.execute(count) != [(0,)]:
            return
        pause.wait(0.1)
    raise TimeoutError(count)


@pytest.mark.parametrize("names", [["totals"] * 4, ["totals", "b", "c", "d"]], ids=["one table", "tables beside it"])
def test_first_commits_at_once_make_the_tables_and_one_ledger(db, names):
    """Of several pipelines, which all find no ledger before any of them makes it."""
    pipelines = [writer(db, table=name, txnAppId=f"store/{number}") for number, name in enumerate(names)]
    messages = [write(made, number) for number, made in enumerate(pipelines)]
    with ThreadPoolExecutor(4) as drivers:
        list(drivers.map(lambda made, message: made.commit([message]), pipelines, messages))
    assert sorted(n for name in set(names) for n in rows(db, name)) == [0, 1, 2, 3]
    assert db.execute("SELECT count(*) FROM rekindle_commits") == [(4,)]


def test_a_ledger_that_another_is_about_to_make_is_waited_for(db, monkeypatch):
    """Two tables of a schema: both have found none when the first makes it."""
    one, other, both = writer(db), writer(db, table="b"), Barrier(2, timeout=60)
    messages, lock = [[write(one, 1)], [write(other, 2)]], postgresql_commit._lock

    def together(cursor: Any, name: str) -> None:
        if "ledger" in name:
            both.wait()
        lock(cursor, name)

    monkeypatch.setattr(postgresql_commit, "_lock", together)
    with ThreadPoolExecutor(2) as drivers:
        list(drivers.map(lambda made, given: made.commit(given), [one, other], messages))
    assert (rows(db), rows(db, "b")) == ([1], [2])


@pytest.mark.parametrize("overwrite", [False, True])
def test_the_next_run_appends_or_replaces(db, overwrite):
    for version in (1, 2):
        made = writer(db, version, overwrite=overwrite)
        made.commit([write(made, version)])
    assert rows(db) == ([2] if overwrite else [1, 2])


def test_an_empty_result_makes_the_table_and_empties_it(db):
    made = writer(db)
    made.commit([write(made), write(made)])
    assert rows(db) == []
    made = writer(db, 2)
    made.commit([write(made, 1)])
    made = writer(db, 3, overwrite=True)
    made.commit([write(made)])
    assert rows(db) == []


def test_a_table_with_rows_is_refused_before_anything_is_written_and_at_the_commit(db):
    made = writer(db, errorIfExists="true")
    messages = [write(made, 1)]
    made.commit(messages)
    writer(db, errorIfExists="true").commit(messages)  # its own rows do not count
    with pytest.raises(ValueError, match=r"public.totals has rows: empty it, or say errorIfExists=false"):
        writer(db, 2, errorIfExists="true")
    db.execute("DELETE FROM totals")
    made = writer(db, 2, errorIfExists="true")
    messages = [write(made, 2)]
    db.execute("INSERT INTO totals VALUES (9, 'of another')")
    with pytest.raises(ValueError, match=r"public.totals has rows"):
        made.commit(messages)
    assert rows(db) == [9]
    with pytest.raises(ValueError, match="errorIfExists=true and mode='overwrite'"):
        writer(db, 2, overwrite=True, errorIfExists="true")


def test_a_table_that_is_gone_before_the_commit_is_missed_and_nothing_is_lost(db):
    db.execute("CREATE TABLE totals (n bigint, word text)")
    made = writer(db)
    messages = [write(made, 1), write(made)]
    db.execute("DROP TABLE totals")
    with pytest.raises(LookupError, match=r"public.totals was there when its rows were written, and is gone: make it"):
        writer(db).commit(messages)
    assert staged(db) == [messages[0].table]
    db.execute("CREATE TABLE totals (n bigint, word text)")
    writer(db).commit(messages)
    assert (rows(db), staged(db)) == ([1], [])


def test_a_driver_that_is_lost_behind_the_commit_is_followed_by_one_that_tidies_up(db, monkeypatch):
    made = writer(db)
    messages = [write(made, 1)]

    def lost(*what: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(postgresql_commit, "drop_left_behind", lost)
    with pytest.raises(KeyboardInterrupt):
        made.commit(messages)
    monkeypatch.undo()
    assert (rows(db), staged(db)) == ([1], [messages[0].table])
    writer(db).commit(messages)
    assert (rows(db), staged(db)) == ([1], [])


def test_a_staging_table_that_is_gone_or_changed_is_not_committed(db):
    made = writer(db)
    messages = [write(made, 1), write(made, 2, 3)]
    place = messages[1].table
    db.execute(f"DELETE FROM {place} WHERE n = 3")
    with pytest.raises(ValueError, match=rf"{place} of partition 1 for public.totals has 1 rows, .* written 2: .* out"):
        made.commit(messages)
    db.execute(f"DROP TABLE {place}")
    with pytest.raises(LookupError, match=rf"{place} of partition 1 for public.totals is gone: .*rekindle rerun out"):
        made.commit(messages)
    assert tables(db).count("totals") == 0
    assert staged(db) == [messages[0].table]


def test_a_restart_of_the_server_keeps_what_is_staged_and_a_crash_is_told(db):
    made = writer(db)
    messages = [write(made, 1)]
    db.stop()
    db.start()
    writer(db).commit(messages)
    made = writer(db, 2)
    messages = [write(made, 2)]
    db.execute("CHECKPOINT")
    os.kill(int((db.folder / "data" / "postmaster.pid").read_text().split()[0]), signal.SIGQUIT)
    db.stop()
    db.start()
    with pytest.raises(ValueError, match=r"has 0 rows, and its task has written 1: .*a crash of the server.*rerun out"):
        writer(db, 2).commit(messages)
    assert rows(db) == [1]


def test_a_commit_that_fails_half_way_changes_nothing(db):
    """The second partition breaks a rule of the table's."""
    db.execute("CREATE TABLE totals (n bigint CHECK (n < 10), word text); INSERT INTO totals VALUES (0, 'old')")
    made = writer(db, overwrite=True)
    messages = [write(made, 1), write(made, 11)]
    with pytest.raises(ValueError, match=r"refuses what it is asked: .*totals_n_check"):
        made.commit(messages)
    assert rows(db) == [0]
    db.execute("ALTER TABLE totals DROP CONSTRAINT totals_n_check")
    writer(db, overwrite=True).commit(messages)
    assert rows(db) == [1, 11]


@pytest.mark.requirement("S5-13")
def test_what_killed_attempts_have_left_goes_with_the_commit(db):
    """Of this run and of those before it, and of nobody else."""
    lost = write(writer(db, 1), 7)
    made = writer(db, 2)
    killed, won = write(made, 8), write(made, 1)
    later, another = write(writer(db, 3), 9), write(writer(db, 1, txnAppId="store/other"), 9)
    assert len({lost.table, killed.table, won.table, later.table, another.table}) == 5
    made.commit([won])
    assert staged(db) == sorted([later.table, another.table])
    assert rows(db) == [1]


def test_an_attempt_that_still_writes_at_the_commit_is_not_waited_for(db):
    made, is_committed = writer(db), Event()
    message = write(made, 1)

    def batches() -> Iterator[Any]:
        yield pyarrow.RecordBatch.from_pydict({"n": [5], "word": ["a"]})
        assert is_committed.wait(60)

    with ThreadPoolExecutor(1) as attempt:
        late = attempt.submit(sent(made).write, batches())
        wait_for(db, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'COPY%' AND state = 'active'")
        made.commit([message])
        is_committed.set()
        lost = late.result(60)
    assert (rows(db), staged(db)) == ([1], [lost.table])
    made.abort([lost])
    assert staged(db) == []


@pytest.mark.parametrize("kind", [EOFError, OSError])
def test_an_attempt_that_fails_while_it_writes_leaves_nothing(db, kind):
    def batches() -> Iterator[Any]:
        yield pyarrow.RecordBatch.from_pydict({"n": [1], "word": ["a"]})
        raise kind("the task has ended")

    with pytest.raises(kind, match=r"^the task has ended$"):
        writer(db).write(batches())
    assert staged(db) == []


def test_a_staging_table_that_cannot_be_dropped_is_told_and_does_not_undo_the_commit(db, caplog, monkeypatch):
    monkeypatch.setattr(postgresql_commit, "_DROP_LOCK_TIMEOUT", "100ms")
    made = writer(db)
    messages = [write(made, 1), write(made, 2)]
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(db.uri()) as connection, connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {messages[0].table} IN ACCESS SHARE MODE")
        with caplog.at_level(logging.WARNING):
            made.commit(messages)
    assert (rows(db), staged(db)) == ([1, 2], [messages[0].table])
    assert "staging tables of its last commit are left in public" in caplog.text


def test_staging_tables_may_be_in_a_schema_of_their_own(db):
    made = writer(db, stagingSchema="staging", table="public.totals")
    killed, won = write(made, 7), write(made, 1)
    assert staged(db, "staging") == sorted([killed.table, won.table])
    assert staged(db) == []
    assert db.execute(
        "SELECT DISTINCT relpersistence::text FROM pg_class WHERE relname LIKE 'rekindle_%' AND relkind = 'r'"
    ) == [("u",)]
    made.commit([won])
    assert (rows(db), staged(db, "staging")) == ([1], [])
    with pytest.raises(ValueError, match=r"no schema nowhere: make it, .*stagingSchema"):
        writer(db, stagingSchema="nowhere")
    with pytest.raises(ValueError, match="no schema nowhere: make it, where the table is to be"):
        writer(db, table="nowhere.totals", stagingSchema="staging")


def test_names_of_staging_tables_fit_whatever_they_are_made_of(db):
    made = writer(db, version=2**31, table="t" * 63, txnAppId="s" * 200)
    assert len(made.staging.new_name(2**31).encode()) <= 63


def test_names_are_taken_as_they_are_written(db):
    schema = StructType().add('a "b" %s', "long").add("Select", "string")
    made = writer(db, schema=schema, table='public.To "tal" --')
    batch = pyarrow.RecordBatch.from_pydict({'a "b" %s': [1], "Select": ["x"]})
    made.commit([made.write(iter([batch]))])
    assert db.execute('SELECT "a ""b"" %s", "Select" FROM "To ""tal"" --"') == [(1, "x")]


TYPES = [
    (types.ByteType(), "smallint", [-128, None], ["-128", None]),
    (types.ShortType(), "smallint", [-32768, None], ["-32768", None]),
    (types.IntegerType(), "integer", [-(2**31), None], ["-2147483648", None]),
    (LongType(), "bigint", [2**63 - 1, None], ["9223372036854775807", None]),
    (types.FloatType(), "real", [1.5, float("nan")], ["1.5", "NaN"]),
    (types.DoubleType(), "double precision", [-0.1, None], ["-0.1", None]),
    (types.BooleanType(), "boolean", [True, None], ["true", None]),
    (StringType(), "text", ["a\n\t\\N ü", ""], ["a\n\t\\N ü", ""]),
    (types.BinaryType(), "bytea", [b"\x00\xff", None], ["\\x00ff", None]),
    (
        DecimalType(38, 5),
        "numeric(38,5)",
        [Decimal("-12345678901234567890123.0012"), None],
        ["-12345678901234567890123.00120", None],
    ),
    (types.DateType(), "date", [dt.date(1, 1, 1), None], ["0001-01-01", None]),
    (
        TimestampType(),
        "timestamp with time zone",
        [dt.datetime(1969, 1, 1, 1, 1, 1, 5, dt.UTC), None],
        ["1969-01-01 01:01:01.000005+00", None],
    ),
    (
        types.TimestampNTZType(),
        "timestamp without time zone",
        [dt.datetime(9999, 12, 31, 23, 59, 59, 999999), None],
        ["9999-12-31 23:59:59.999999", None],
    ),
    (types.DayTimeIntervalType(), "interval", [dt.timedelta(days=2, microseconds=-1), None], ["47:59:59.999999", None]),
    (ArrayType(LongType()), "bigint[]", [[1, None], []], ["{1,NULL}", "{}"]),
    (ArrayType(StringType()), "text[]", [["a,b", None], None], ['{"a,b",NULL}', None]),
    (ArrayType(DecimalType(10, 2)), "numeric(10,2)[]", [[Decimal("1.20")], []], ["{1.20}", "{}"]),
    (
        ArrayType(TimestampType()),
        "timestamp with time zone[]",
        [[dt.datetime(2024, 1, 1, tzinfo=dt.UTC)], []],
        ['{"2024-01-01 00:00:00+00"}', "{}"],
    ),
]


@pytest.fixture(scope="module")
def found(postgres: Server) -> dict[str, tuple[str, list[Any]]]:
    """Of a table that has one column of each type: the database's type, and its spelling of the values."""
    schema = StructType().add("place", "integer")
    for kind, *_ in TYPES:
        schema = schema.add(kind.simpleString(), kind)
    columns = [[0, 1], *(values for _, _, values, _ in TYPES)]
    arrays = [pyarrow.array(one, field.type) for one, field in zip(columns, arrow_schema(schema), strict=True)]
    postgres.execute("CREATE SCHEMA kinds")
    made = writer(postgres, schema=schema, table="kinds.kinds")
    made.commit([made.write(iter([pyarrow.RecordBatch.from_arrays(arrays, schema.names)]))])
    kinds = dict(
        postgres.execute(
            "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = 'kinds.kinds'::regclass AND attnum > 0"
        )
    )
    shown = ", ".join(f'"{name}"::text' for name in kinds)
    rows = postgres.execute(f"SELECT {shown} FROM kinds.kinds ORDER BY place")
    return {name: (kinds[name], list(values)) for name, values in zip(kinds, zip(*rows, strict=True), strict=True)}


@pytest.mark.parametrize(("kind", "column", "values", "spelled"), TYPES, ids=[one[0].simpleString() for one in TYPES])
def test_values_come_out_as_they_went_in(found, kind, column, values, spelled):
    assert found[kind.simpleString()] == (column, spelled)


def test_texts_become_json_and_uuids_and_numbers_become_wider(db):
    db.execute("CREATE TABLE totals (id uuid, doc jsonb, n numeric, at serial, word varchar(3))")
    schema = StructType().add("doc", "string").add("n", "integer").add("id", "string").add("word", "string")
    made = writer(db, schema=schema)
    one: dict[str, Any] = {
        "doc": ['{"a":1}'],
        "n": [7],
        "id": ["00000000-0000-0000-0000-000000000001"],
        "word": ["abc"],
    }
    made.commit([made.write(iter([pyarrow.RecordBatch.from_pydict(one)]))])
    assert db.execute("SELECT id::text, doc->>'a', n::text, at, word FROM totals") == [
        (one["id"][0], "1", "7", 1, "abc")
    ]
    made = writer(db, 2, schema=schema)
    message = made.write(iter([pyarrow.RecordBatch.from_pydict(one | {"word": ["abcd"]})]))
    with pytest.raises(ValueError, match=r"refuses what it is asked: .*too long"):
        made.commit([message])


REFUSED = [
    ("n bigint", "has no column word, and the sink has: it is of type text"),
    ("n integer, word text", "column n .* is of type integer, and that of the sink bigint"),
    ("n numeric(18,0), word text", r"column n .* is of type numeric\(18,0\), and that of the sink bigint"),
    ("n bigint, word text, day date NOT NULL", "column day date .* must have a value: the sink has none"),
    ("n bigint GENERATED ALWAYS AS IDENTITY, word text", "column n .* is generated: leave it out"),
]


@pytest.mark.parametrize(("columns", "why"), REFUSED, ids=[columns for columns, _ in REFUSED])
def test_a_table_that_the_rows_do_not_fit_is_refused_before_anything_is_written(db, columns, why):
    db.execute(f"CREATE TABLE totals ({columns})")
    with pytest.raises(ValueError, match=why):
        writer(db)


def test_a_view_is_no_table(db):
    db.execute("CREATE VIEW totals AS SELECT 1::bigint AS n, ''::text AS word")
    with pytest.raises(ValueError, match=r"public.totals is no table"):
        writer(db)


def test_a_table_that_was_changed_since_is_not_written_to(db):
    db.execute("CREATE TABLE totals (n bigint, word text)")
    made = writer(db)
    messages = [write(made, 1)]
    db.execute("ALTER TABLE totals ALTER n TYPE integer")
    with pytest.raises(ValueError, match="is of type integer, and that of the sink bigint"):
        made.commit(messages)
    assert (rows(db), staged(db)) == ([], [messages[0].table])


FITS = [
    ("numeric", "numeric(10,2)", True),
    ("numeric(12,4)", "numeric(10,2)", True),
    ("numeric(12,4)", "numeric(12,2)", False),
    ("numeric(12,1)", "numeric(10,2)", False),
    ("numeric(19,0)", "bigint", True),
    ("bigint", "numeric(10,0)", False),
    ("double precision", "real", True),
    ("real", "double precision", False),
    ("character(3)", "text", False),
    ("text", "character varying", False),
    ("bigint[]", "integer[]", True),
    ("integer[]", "bigint[]", False),
    ("jsonb[]", "text[]", False),
    ("bigint[]", "bigint", False),
    ("timestamp without time zone", "timestamp with time zone", False),
    ("timestamp(3) with time zone", "timestamp with time zone", False),
]


@pytest.mark.parametrize(("column", "written", "answer"), FITS, ids=[f"{one[1]} to {one[0]}" for one in FITS])
def test_a_column_takes_what_it_holds_without_a_change(column, written, answer):
    assert takes(column, written) is answer


NO_TYPES = [
    types.MapType(StringType(), LongType()),
    StructType().add("a", "long"),
    ArrayType(ArrayType(LongType())),
    types.NullType(),
]


@pytest.mark.parametrize("kind", NO_TYPES, ids=[kind.simpleString() for kind in NO_TYPES])
def test_types_that_the_database_has_not_are_named(db, kind):
    with pytest.raises(ValueError, match=r"the column c has the type .*select another, such as to_json"):
        writer(db, schema=StructType().add("c", kind))


def test_options_that_are_none_are_named(db):
    with pytest.raises(ValueError, match="no option 'mode'"):
        writer(db, mode="append")
    with pytest.raises(ValueError, match=r"table='': name the table"):
        writer(db, table="")
    with pytest.raises(ValueError, match=r"table='a.b.c': name the table"):
        writer(db, table="a.b.c")
    with pytest.raises(ValueError, match="errorIfExists='yes': it is true or false"):
        writer(db, errorIfExists="yes")


def test_who_may_not_write_is_told_so_before_anything_is_written(db):
    db.execute(
        "DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN PASSWORD 'word';"
        "CREATE TABLE totals (n bigint, word text); GRANT USAGE ON SCHEMA public, staging TO reader"
    )
    reader: dict[str, Any] = {"user": "reader", "password": "word"}
    with pytest.raises(ValueError, match=r"may not make tables in the schema public: grant CREATE.*stagingSchema"):
        writer(db, **reader)
    db.execute("GRANT CREATE ON SCHEMA public, staging TO reader; GRANT SELECT ON totals TO reader")
    with pytest.raises(ValueError, match=r"may not write to the table public.totals: grant INSERT on it"):
        writer(db, **reader)
    db.execute("GRANT INSERT ON totals TO reader")
    made = writer(db, **reader)
    made.commit([write(made, 1)])
    with pytest.raises(ValueError, match="grant DELETE on it"):
        writer(db, 2, **reader, overwrite=True)
    assert rows(db) == [1]
    db.execute("DROP OWNED BY reader; DROP ROLE reader")


def test_a_password_is_in_no_message_and_no_error(db):
    made = writer(db)
    message = write(made, 1)
    dumps: Any = cloudpickle.dumps
    assert PASSWORD.encode() not in dumps(message)
    assert PASSWORD not in f"{message} {made.server} {made.target} {made.staging}"
    made.commit([message])
    assert rows(db) == [1]
    with pytest.raises(ValueError, match="Postgresql has a password in its url: give it as the option 'password'"):
        writer(db, url=db.uri())
    with pytest.raises(ConnectionError, match=r"does not accept its user: .*'password'.*PGPASSFILE") as caught:
        writer(db, password="s ecret")
    assert "ecret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_lock_that_is_not_had_in_time_is_told_and_changes_nothing(db, monkeypatch):
    monkeypatch.setattr(postgresql_commit, "_LOCK_TIMEOUT", "100ms")
    db.execute("CREATE TABLE totals (n bigint, word text)")
    made = writer(db)
    messages = [write(made, 1)]
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(db.uri()) as connection, connection.cursor() as cursor:
        cursor.execute("LOCK TABLE totals IN EXCLUSIVE MODE")
        with pytest.raises(TimeoutError, match=r"waited too long for a lock \(pg_locks tells who has it\)"):
            made.commit(messages)
    assert (rows(db), staged(db)) == ([], [messages[0].table])


def test_a_server_that_is_gone_is_told_as_such():
    with server() as own:
        made = writer(own)

        def batches() -> Iterator[Any]:
            yield pyarrow.RecordBatch.from_pydict({"n": [1], "word": ["a"]})
            own.stop()
            for n in range(100_000):
                yield pyarrow.RecordBatch.from_pydict({"n": [n], "word": ["a"]})

        with pytest.raises(ConnectionError, match=rf"the connection to .*127.0.0.1:{own.port}/postgres was lost: "):
            made.write(batches())
        with pytest.raises(ConnectionError, match=rf"there is no connection to .*{own.port}.*See the option 'url'"):
            made.commit([])
        own.start()
        assert tables(own) == []


def test_libpq_finds_what_is_not_said(db, tmp_path, monkeypatch):
    (tmp_path / "pass").write_text(f"127.0.0.1:{db.port}:*:postgres:{PASSWORD}\n")
    (tmp_path / "pass").chmod(0o600)
    (tmp_path / "services").write_text(f"[shop]\nhost=127.0.0.1\nport={db.port}\ndbname=postgres\nuser=postgres\n")
    with pytest.raises(ConnectionError, match="no password supplied"):
        writer(db, password=None)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pass"))
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    for version, url in enumerate((db.uri(password=None), "postgresql://?service=shop")):
        made = writer(db, version, password=None, url=url)
        made.commit([write(made, version)])
    assert rows(db) == [0, 1]
