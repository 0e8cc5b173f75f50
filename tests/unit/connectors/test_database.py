"""Tables by ranges: all splits together are the whole, and each value is what the server has."""

from __future__ import annotations

import datetime
import itertools
import os
import pickle
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from rekindle.connectors.database import Database, DatabaseOptions
from rekindle.connectors.database_ranges import Axis, conditions, cuts, literal, position
from tests import postgres

TABLE = """
CREATE TABLE orders AS SELECT
    n AS id, (n / 8.0)::numeric(12, 3) AS price, 'word ' || n AS word, DATE '2013-01-01' + n % 90 AS day,
    TIMESTAMP '2013-01-01' + n * interval '1 hour' AS placed,
    TIMESTAMPTZ '2013-01-01 00:00+00' + n * interval '1 hour' AS at
FROM generate_series(-200, 300) AS n;
INSERT INTO orders (word) VALUES ('none'), ('of'), ('these');
CREATE ROLE reader LOGIN PASSWORD 'first';
GRANT SELECT ON orders TO reader
"""


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    with postgres.server() as made:
        made.execute(TABLE)
        yield made


def source(server: postgres.Server, **options: object) -> Database:
    given: dict[str, object] = {"url": server.uri(password=None), "password": postgres.PASSWORD, **options}
    return Database({name: str(value) for name, value in given.items()})


def rows(server: postgres.Server, schema: Any = None, **options: object) -> list[tuple[Any, ...]]:
    """Of all splits, in their order."""
    made = source(server, **options)
    reader: Any = made.reader(schema or made.schema())
    batches = [batch for split in reader.partitions() for batch in reader.read(split)]
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def value(server: postgres.Server, expression: str, kind: Any = None) -> Any:
    """What is read of one value, as `kind` if it is given."""
    schema = None if kind is None else StructType().add("x", kind)
    ((found,),) = rows(server, schema, query=f"SELECT {expression} AS x")
    return found


# -- ranges ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("bounds", [(0, 0), (0, 1), (-5, 5), (10, 3000), (-(1 << 63), (1 << 63) - 1)], ids=str)
def test_cuts_are_of_equal_width_and_none_is_there_twice(bounds, count):
    lower, upper = bounds
    found = [lower, *cuts(lower, upper, count), upper + 1]
    widths = [stop - start for start, stop in itertools.pairwise(found)]
    assert len(widths) == min(count, upper - lower + 1)
    assert min(widths) > 0
    assert max(widths) - min(widths) <= 1


@pytest.mark.parametrize("column", ["id", "price", "day", "placed", "at"])
@pytest.mark.parametrize("splits", [1, 2, 9])
def test_each_row_is_in_one_split_null_too(server, column, splits):
    found = rows(server, query="SELECT * FROM orders -- all", partitionColumn=column.upper(), numPartitions=splits)
    assert sorted(found, key=repr) == sorted(rows(server, dbtable="orders"), key=repr)
    assert len(found) == 504
    assert len(source_splits(server, column, splits)) == splits


def source_splits(server: postgres.Server, column: str, splits: int, **options: object) -> list[str]:
    made = source(server, dbtable="orders", partitionColumn=column, numPartitions=splits, **options)
    return list(map(repr, made.reader(made.schema()).partitions()))


BOUNDS = {
    "id": ("0", "99"),
    "day": ("2013-02-01", "2013-02-10"),
    "placed": ("2013-01-02", "2013-01-03 12:30:00.5"),
    "at": ("2013-01-02T00:00:00+02:00", "2013-01-03"),
}


@pytest.mark.parametrize("column", BOUNDS)
def test_bounds_say_where_to_cut_and_leave_nothing_out(server, column):
    lower, upper = BOUNDS[column]
    more = {"dbtable": "orders", "partitionColumn": column, "numPartitions": 4}
    assert len(rows(server, lowerBound=lower, upperBound=upper, **more)) == 504
    assert len(rows(server, lowerBound=lower, **more)) == 504, "the other one is asked for"
    splits = source_splits(server, column, 4, lowerBound=lower, upperBound=upper)
    assert len(splits) == 4
    assert splits[0].endswith("IS NULL")


def test_the_ranges_are_those_that_the_bounds_say(server):
    assert source_splits(server, "id", 3, lowerBound=0, upperBound=8) == [
        'rows where "id" < 3 OR "id" IS NULL',
        'rows where "id" >= 3 AND "id" < 6',
        'rows where "id" >= 6',
    ]
    assert source_splits(server, "id", 3) == [
        'rows where "id" < -33 OR "id" IS NULL',
        'rows where "id" >= -33 AND "id" < 134',
        'rows where "id" >= 134',
    ]


def test_literals_are_where_their_positions_are(server):
    for axis, kind, text in (
        (Axis.DATE, "date", "0001-01-01"),
        (Axis.TIME, "timestamp", "1969-12-31 23:59:59.999999"),
        (Axis.INSTANT, "timestamptz", "2024-02-29 12:00:00+05:30"),
    ):
        said = literal(axis, position(axis, text))
        assert server.execute(f"SELECT {said} = {kind} '{text}'") == [(True,)], said


@pytest.mark.parametrize(
    ("axis", "text"),
    [(Axis.NUMBER, "1.5"), (Axis.DATE, "2013-01-01 12:00"), (Axis.TIME, "2013-01-01 12:00+01:00"), (Axis.TIME, "soon")],
    ids=str,
)
def test_a_bound_that_is_none_is_refused(axis, text):
    with pytest.raises(ValueError, match=r".+"):
        position(axis, text)


def test_nothing_and_null_alone_are_one_split(server):
    for table in ("SELECT 1 AS id WHERE false", "SELECT NULL::integer AS id"):
        made = source(server, query=table, partitionColumn="id", numPartitions=8)
        assert list(map(repr, made.reader(made.schema()).partitions())) == ["all rows"]
    assert conditions("x", Axis.NUMBER, []) == [""]


# -- types -----------------------------------------------------------------------------------------------

UUID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
TYPES: dict[str, tuple[str, str, Any]] = {  # expression, Spark's type, value
    "smallint": ("5::smallint", "smallint", 5),
    "integer": ("5", "int", 5),
    "bigint": ("5::bigint", "bigint", 5),
    "real": ("1.5::real", "float", 1.5),
    "double": ("1.5::double precision", "double", 1.5),
    "boolean": ("true", "boolean", True),
    "numeric(12, 2)": ("5.25::numeric(12, 2)", "decimal(12,2)", Decimal("5.25")),
    "numeric(3, -2)": ("1234::numeric(3, -2)", "decimal(5,0)", Decimal("1200")),
    "numeric(2, 4)": ("0.0012::numeric(2, 4)", "decimal(4,4)", Decimal("0.0012")),
    "numeric": ("1::numeric / 8", "decimal(38,18)", Decimal("0.125")),
    "text": ("'é'", "string", "é"),
    "char": ("'a'::char(3)", "string", "a  "),
    "bytea": (r"'\x00ff'::bytea", "binary", b"\x00\xff"),
    "date": ("DATE '2013-01-31'", "date", datetime.date(2013, 1, 31)),
    "timestamp": (
        "TIMESTAMP '2013-01-31 01:02:03.456789'", "timestamp_ntz", datetime.datetime(2013, 1, 31, 1, 2, 3, 456789),
    ),
    "timestamptz": (
        "TIMESTAMPTZ '2013-01-31 01:02+02'", "timestamp", datetime.datetime(2013, 1, 30, 23, 2, tzinfo=datetime.UTC),
    ),
    "uuid": (f"'{UUID}'::uuid", "string", UUID),
    "json": ("""'{"a": 1}'::json""", "string", '{"a": 1}'),
    "jsonb": ("""'{"a":1}'::jsonb""", "string", '{"a": 1}'),
    "integers": ("ARRAY[1, NULL, 3]", "array<int>", [1, None, 3]),
    "texts": ("ARRAY['a', NULL]", "array<string>", ["a", None]),
    "numerics": ("ARRAY[1.5]", "array<decimal(38,18)>", [Decimal("1.5")]),
    "uuids": (f"ARRAY['{UUID}'::uuid]", "array<string>", [UUID]),
    "null": ("NULL::integer[]", "array<int>", None),
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_types_are_those_of_spark(server, name):
    expression, kind, wanted = TYPES[name]
    made = source(server, query=f"SELECT {expression} AS x")
    assert made.schema().simpleString() == f"struct<x:{kind}>"
    assert value(server, expression) == wanted


def test_enums_are_text_and_domains_what_they_are_made_of(server):
    server.execute("CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE DOMAIN positive AS integer CHECK (value > 0)")
    assert value(server, "'glad'::mood") == "glad"
    assert value(server, "ARRAY['glad'::mood]") == ["glad"]
    assert value(server, "7::positive") == 7


UNKNOWN = {
    "interval": ("'1 day'::interval", "1 day"),
    "time": ("'01:02'::time", "01:02:00"),
    "money": ("'5'::money", "$5.00"),
    "oid": ("4294967295::oid", "4294967295"),
    "inet": ("'10.0.0.1'::inet", "10.0.0.1/32"),
    "point": ("point(1, 2)", "(1,2)"),
    "numeric": ("5::numeric(50, 2)", "5.00"),
    "orders": ("NULL::orders", None),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_spark_has_no_type_for_is_named_and_may_be_text(server, name):
    expression, text = UNKNOWN[name]
    with pytest.raises(ValueError, match=rf"no type of Spark's for x \({name}\): .*cast .*\"x\"::text"):
        source(server, query=f"SELECT {expression} AS x").schema()
    with pytest.raises(ValueError, match=rf"x is of the type {name} and wanted as double: say STRING"):
        value(server, expression, DoubleType())
    assert value(server, expression, StringType()) == text


CONVERTED = {
    "shorter": ("5::bigint", ShortType(), 5),
    "longer": ("5", LongType(), 5),
    "number": ("5.50::numeric", DoubleType(), 5.5),
    "no number": ("'NaN'::numeric", StringType(), "NaN"),
    "decimal": ("5.5::numeric", DecimalType(9, 1), Decimal("5.5")),
    "text of a time": ("TIMESTAMPTZ '2013-01-31 12:00+02'", StringType(), "2013-01-31 10:00:00+00"),
    "time in UTC": (
        "TIMESTAMP '2013-01-31 12:00'", TimestampType(), datetime.datetime(2013, 1, 31, 12, tzinfo=datetime.UTC),
    ),
    "bytes": (f"'{UUID}'::uuid", BinaryType(), bytes.fromhex(UUID.replace("-", ""))),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVERTED)
def test_a_schema_that_is_given_says_what_values_become(server, name):
    expression, kind, wanted = CONVERTED[name]
    assert value(server, expression, kind) == wanted


NOT_FITTING = {
    "too large": ("40000", ShortType(), "column x does not fit into int16"),
    "too many digits": ("5.55::numeric", DecimalType(9, 1), r"column x does not fit into decimal128\(9, 1\)"),
    "no decimal": ("'NaN'::numeric", None, "column x does not fit into decimal"),
    "words": ("'five'", IntegerType(), "column x does not fit into int32"),
    "infinite": ("DATE 'infinity'", DateType(), "column x has an infinite value"),
    "infinite time": ("TIMESTAMPTZ '-infinity'", None, "column x has an infinite value"),
    "matrix": ("ARRAY[[1, 2], [3, 4]]", None, "column x has an array of several dimensions"),
}


@pytest.mark.parametrize("name", NOT_FITTING)
def test_values_that_do_not_fit_are_refused_with_their_column(server, name):
    expression, kind, said = NOT_FITTING[name]
    with pytest.raises(ValueError, match=said + ".*cast it in the option 'query'"):
        value(server, expression, kind)


def test_columns_are_found_by_name_and_others_not_fetched(server):
    schema = StructType().add("WORD", StringType()).add("id", LongType())
    found = rows(server, schema, dbtable="orders")
    assert len(found) == 504
    assert ("word 7", 7) in found
    with pytest.raises(ValueError, match="the schema names the column 'wort': did you mean 'word'"):
        rows(server, StructType().add("wort", StringType()), dbtable="orders")
    with pytest.raises(ValueError, match="column id has null, and the schema says that it has none"):
        rows(server, StructType().add("id", LongType(), nullable=False), dbtable="orders")
    with pytest.raises(ValueError, match="several columns 'a'"):
        rows(server, query="SELECT 1 AS a, 2 AS a")


# -- options ---------------------------------------------------------------------------------------------

GOOD = {"url": "postgresql://reader@db.example/shop", "dbtable": "orders"}
WRONG: dict[str, tuple[dict[str, str | None], str]] = {
    "unknown": ({"numpartition": "3"}, "no option 'numpartition': did you mean 'numPartitions'"),
    "no url": ({"url": None}, "needs the option 'url'"),
    "other url": ({"url": "jdbc:mysql://db.example/shop?password=sesame"}, "begins with postgresql://"),
    "password": ({"url": "postgresql://reader:sesame@db.example/shop"}, "password in its url"),
    "odd password": ({"url": "postgresql://reader:ses@me?/1@db.example/shop"}, "password in its url"),
    "parameter": ({"url": "postgresql://db.example/shop?password=sesame"}, "password in its url"),
    "no table": ({"dbtable": None}, "one of the options 'dbtable' and 'query'"),
    "two tables": ({"query": "SELECT 1"}, "one of the options 'dbtable' and 'query'"),
    "bound alone": ({"lowerBound": "3"}, "'lowerBound' and no 'partitionColumn'"),
    "splits alone": ({"numPartitions": "3"}, "'numPartitions' and no 'partitionColumn'"),
    "no splits": ({"partitionColumn": "id"}, "'partitionColumn' and no 'numPartitions'"),
    "zero": (
        {"partitionColumn": "id", "numPartitions": "0"},
        "numPartitions='0': it is a whole number, from 1 to 1000000",
    ),
    "timeout": ({"queryTimeout": "-1"}, "queryTimeout='-1': it is a whole number"),
    "batch": ({"fetchsize": "many"}, "fetchsize='many': it is a whole number"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_options_are_refused_by_name(name):
    more, said = WRONG[name]
    given = {key: text for key, text in {**GOOD, **more}.items() if text is not None}
    with pytest.raises(ValueError, match=said) as caught:
        DatabaseOptions.parse(given)
    assert "sesame" not in str(caught.value)
    assert "ses@me" not in str(caught.value)


WRONG_COLUMNS: dict[str, tuple[dict[str, object], str]] = {
    "none": ({"partitionColumn": "idd"}, "partitionColumn names the column 'idd': did you mean 'id'"),
    "text": ({"partitionColumn": "word"}, "partitionColumn='word' is of the type text: name one of integers"),
    "bound": (
        {"partitionColumn": "day", "lowerBound": "5"},
        "lowerBound='5': for this partitionColumn it is a date, such",
    ),
    "bounds": ({"partitionColumn": "id", "lowerBound": 5, "upperBound": 4}, "lowerBound='5' above upperBound='4'"),
}


@pytest.mark.parametrize("name", WRONG_COLUMNS)
def test_wrong_columns_and_bounds_are_refused_by_name(server, name):
    more, said = WRONG_COLUMNS[name]
    with pytest.raises(ValueError, match=said):
        rows(server, dbtable="orders", numPartitions=3, **more)


def test_extremes_that_are_no_days_are_told_with_the_remedy(server):
    table = "SELECT * FROM (VALUES (DATE 'infinity'), (DATE '2013-01-01')) AS days (day)"
    with pytest.raises(ValueError, match=r"cannot subtract infinite dates.*give bounds"):
        rows(server, query=table, partitionColumn="day", numPartitions=3)
    table = table.replace("infinity", "4000-01-01 BC")
    with pytest.raises(ValueError, match="no days of the years 1 to 9999: give others, as lowerBound"):
        rows(server, query=table, partitionColumn="day", numPartitions=3)


def test_urls_of_jdbc_are_read_and_options_come_before_what_they_say(server):
    url = f"jdbc:postgresql://somebody@127.0.0.1:{server.port}/postgres?sslmode=disable&application_name=shop"
    said = "current_user::text AS a, current_setting('application_name') AS b"
    assert rows(server, url=url, user="postgres", query=f"SELECT {said}") == [("postgres", "shop")]


def test_the_session_reads_only_in_utc_within_its_time(server, monkeypatch):
    monkeypatch.setenv("PGTZ", "Asia/Tokyo")
    names = ("TimeZone", "transaction_read_only", "statement_timeout", "search_path")
    said = ", ".join(f"current_setting('{name}') AS {name}" for name in names)
    found = rows(server, query=f"SELECT {said}", queryTimeout=77, sessionInitStatement="SET search_path = shop")
    assert found == [("UTC", "on", "77s", "shop")]
    with pytest.raises(TimeoutError, match="more than queryTimeout=1 s"):
        rows(server, query="SELECT pg_sleep(60)::text AS x", queryTimeout=1)
    with pytest.raises(TimeoutError, match="more than the server's statement_timeout"):
        rows(server, query="SELECT pg_sleep(60)::text AS x", sessionInitStatement="SET statement_timeout = '100ms'")
    server.execute("CREATE SEQUENCE numbers")
    with pytest.raises(ValueError, match=r"cannot execute nextval\(\) in a read-only transaction"):
        rows(server, query="SELECT nextval('numbers') AS x")


def test_batches_are_no_larger_than_said_and_reading_may_end_early(server):
    made = source(server, query="SELECT generate_series(1, 3000000) AS n", fetchsize=100)
    reader: Any = made.reader(made.schema())
    reads = reader.read(reader.partitions()[0])
    assert [next(reads).num_rows for _ in range(3)] == [100, 100, 100]
    reads.close()
    assert server.execute("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'COPY%3000000%'") == [(0,)]


# -- credentials -----------------------------------------------------------------------------------------


def test_a_password_is_in_no_text_and_not_in_what_is_stored(server):
    made = source(server, dbtable="orders", partitionColumn="id", numPartitions=2)
    reader: Any = made.reader(made.schema())
    splits = reader.partitions()
    assert postgres.PASSWORD.encode() in pickle.dumps(reader), "Spark alone sends it so"
    stored = reader.with_secrets({})
    assert postgres.PASSWORD.encode() not in pickle.dumps((stored, splits))
    assert postgres.PASSWORD not in repr((vars(reader), splits, DatabaseOptions.parse(made.options)))
    with pytest.raises(ConnectionError, match="no password supplied"):
        list(stored.read(splits[0]))
    again = pickle.loads(pickle.dumps(stored)).with_secrets({"Password": postgres.PASSWORD})
    assert sum(batch.num_rows for split in splits for batch in again.read(split)) == 504


def test_who_is_not_accepted_is_told_where_credentials_come_from(server):
    with pytest.raises(ConnectionError, match=r"does not accept its user: .*expired.*'password'.*PGPASSFILE") as caught:
        rows(server, dbtable="orders", user="reader", password="sesame")
    assert "sesame" not in str(caught.value)


def test_files_of_credentials_are_read_for_each_connection(server, tmp_path, monkeypatch):
    options = {"url": server.uri("reader", None), "dbtable": "orders", "partitionColumn": "id", "numPartitions": "3"}
    path = tmp_path / "pgpass"
    monkeypatch.setenv("PGPASSFILE", str(path))
    write_password(path, "first")
    made = Database(options)
    reader: Any = made.reader(made.schema())
    one, two, three = reader.partitions()
    assert list(reader.read(one))
    server.execute("ALTER ROLE reader PASSWORD 'second'")
    with pytest.raises(ConnectionError, match="does not accept its user"):
        list(reader.read(two))
    write_password(path, "second")
    assert list(reader.read(two))
    monkeypatch.delenv("PGPASSFILE")
    service = tmp_path / "services"
    service.write_text("[shop]\npassword=second\n")
    monkeypatch.setenv("PGSERVICEFILE", str(service))
    by_service = Database({**options, "url": options["url"] + "?service=shop"})
    assert list(by_service.reader(by_service.schema()).read(three))


def write_password(path: Path, password: str) -> None:
    path.write_text(f"*:*:*:reader:{password}\n")
    os.chmod(path, 0o600)


def test_odd_characters_of_a_password_reach_the_server(server):
    server.execute("CREATE ROLE odd LOGIN PASSWORD 'a b%&=?/é@'")
    assert rows(server, user="odd", password="a b%&=?/é@", query="SELECT 1 AS x") == [(1,)]


# -- losses ----------------------------------------------------------------------------------------------


def test_a_server_that_is_gone_is_told_as_such():
    with postgres.server() as own:
        made = source(own, query="SELECT n, repeat('x', 100) AS t FROM generate_series(1, 2000000) AS n")
        reader: Any = made.reader(made.schema())
        reads = reader.read(reader.partitions()[0])
        next(reads)
        own.stop()
        with pytest.raises(ConnectionError, match=rf"the connection to .*127.0.0.1:{own.port}/postgres was lost: "):
            list(reads)
        with pytest.raises(ConnectionError, match=rf"there is no connection to .*{own.port}.*See the option 'url'"):
            made.schema()
        own.start()
        assert made.schema()


def test_what_the_server_refuses_is_told_with_its_words(server):
    with pytest.raises(ValueError, match='relation "order" does not exist'):
        rows(server, dbtable='"order"')
    with pytest.raises(ValueError, match=r"refuses what it is asked: .*division by zero"):
        rows(server, query="SELECT 1 / (n - 400000) AS x FROM generate_series(1, 800000) AS n")
