"""Files by ranges: all splits together are the whole, whatever their size."""

from __future__ import annotations

import datetime
import gzip
import math
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructType, TimestampType

from rekindle.connectors.files import Files
from rekindle.runtime.source_splits import pickled

CSV = 'n,word\n1,one\n2,"two, too"\n3,\n44,four\n'
JSON = '{"n": 1, "word": "one"}\n{"n": 2, "word": "two, too"}\n{"n": 3}\n{"n": 44, "word": "four", "more": 1}\n'
ROWS = [(1, "one"), (2, "two, too"), (3, None), (44, "four")]
SCHEMA = StructType().add("n", "long").add("word", "string")


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def source(path: object, kind: str, **more: object) -> Any:
    return Files({"path": str(path), "format": kind, **{name: str(value) for name, value in more.items()}})


def rows(path: object, kind: str, schema: Any = None, **more: object) -> list[tuple[Any, ...]]:
    """In the order of the file."""
    made = source(path, kind, **more)
    reader = made.reader(schema or made.schema())
    splits = sorted(reader.partitions(), key=lambda split: (split.path, split.start))
    return [tuple(row.values()) for split in splits for batch in reader.read(split) for row in batch.to_pylist()]


TEXTS = {"csv": CSV, "json": JSON}
ENDS = {"line ends": "\n", "returns": "\r\n"}


@pytest.mark.parametrize("last", ["ended", "open"])
@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("kind", TEXTS)
def test_each_row_is_in_one_split_whatever_their_size(tmp_path, kind, ends, last):
    text = TEXTS[kind].replace("\n", ENDS[ends])
    path = written(tmp_path / "data", text if last == "ended" else text.rstrip("\r\n"))
    for size in range(1, len(text) + 2):
        assert rows(path, kind, SCHEMA, splitBytes=size) == ROWS, size


@pytest.mark.parametrize("text", ["a\n\nbc\nd", "\n", "a", "a\r\nb\r\n"], ids=["open", "empty line", "one", "returns"])
def test_lines_of_text_are_in_one_split_each_too(tmp_path, text):
    path = written(tmp_path / "data", text)
    for size in range(1, len(text) + 2):
        assert rows(path, "text", splitBytes=size) == [(line,) for line in text.splitlines()], size


def test_row_groups_of_parquet_are_in_one_split_each(tmp_path):
    path = tmp_path / "data.parquet"
    table = pyarrow.table({"n": range(100), "word": [f"word {n}" for n in range(100)]})
    pyarrow.parquet.write_table(table, path, row_group_size=7)
    for size in (1, 50, 333, 1 << 20):
        assert rows(path, "parquet", splitBytes=size) == [(n, f"word {n}") for n in range(100)]
    assert len(source(path, "parquet", splitBytes=333).reader(SCHEMA).partitions()) > 3


def test_lines_are_read_some_at_a_time(tmp_path, monkeypatch):
    path = written(tmp_path / "data", CSV)
    monkeypatch.setattr("rekindle.connectors.file_formats._CHUNK", 5)
    assert rows(path, "csv", SCHEMA) == rows(path, "csv", SCHEMA, splitBytes=20) == ROWS


def test_what_is_compressed_is_read_as_a_whole(tmp_path):
    path = written(tmp_path / "data.csv.gz", CSV)
    (split,) = source(path, "csv", splitBytes=3).reader(SCHEMA).partitions()
    assert (rows(path, "csv", splitBytes=3), repr(split)) == (ROWS, f"{path}, bytes 0 to {split.size} of {split.size}")


def test_what_is_compressed_in_another_way_is_refused(tmp_path):
    path = written(tmp_path / "data.csv.xz", CSV)
    with pytest.raises(ValueError, match=rf"{path} cannot be read: have it compressed as \.gz"):
        source(tmp_path, "csv").reader(SCHEMA).partitions()


def test_values_with_line_ends_are_read_where_one_says_so(tmp_path):
    path = written(tmp_path / "data", 'n,word\n1,"one\nmore"\n2,two\n')
    assert rows(path, "csv", multiLine="true", splitBytes=4) == [(1, "one\nmore"), (2, "two")]


def test_columns_are_found_by_name_where_files_name_them(tmp_path):
    written(tmp_path / "a.csv", "word,n\none,1\n")
    written(tmp_path / "b.csv", "n,other\n2,x\n")
    assert rows(tmp_path, "csv", SCHEMA) == [(1, "one"), (2, None)]
    written(tmp_path / "c" / "no-names", "3,three\n")
    assert rows(tmp_path / "c", "csv", SCHEMA, header="false") == [(3, "three")]


def test_columns_are_found_whatever_their_case(tmp_path):
    written(tmp_path / "a.csv", "N,Word\n1,one\n")
    assert rows(tmp_path, "csv", SCHEMA) == [(1, "one")]
    pyarrow.parquet.write_table(pyarrow.table({"N": [2, 3], "other": [0, 0]}), tmp_path / "b.parquet")
    assert rows(tmp_path / "b.parquet", "parquet", SCHEMA) == [(2, None), (3, None)]
    assert rows(tmp_path / "b.parquet", "parquet", StructType().add("more", "long")) == [(None,), (None,)]
    written(tmp_path / "Day=1" / "c.csv", "n\n4\n")
    assert rows(tmp_path / "Day=1*", "csv", StructType().add("n", "long")) == [(4,)]
    assert rows(f"{tmp_path}/D*/*", "csv", StructType().add("day", "long").add("n", "long")) == [(1, 4)]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_columns_that_differ_in_case_alone_are_told_apart_by_it_or_are_an_error(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    if kind == "csv":
        written(path, "N,n\n1,2\n")
    else:
        pyarrow.parquet.write_table(pyarrow.table({"N": [1], "n": [2]}), path)
    with pytest.raises(
        ValueError, match=rf"{path} has columns 'N' and 'n', and either may be 'n' of the schema: rename"
    ):
        rows(path, kind, SCHEMA)
    assert rows(path, kind, StructType().add("n", "long").add("N", "long")) == [(2, 1)]


@pytest.mark.parametrize(
    ("kind", "text"), [("csv", "at\n2013-01-31 05:00:00\n"), ("json", '{"at": "2013-01-31 05:00:00"}')]
)
def test_times_without_a_zone_stay_so(tmp_path, kind, text):
    assert rows(written(tmp_path / "data", text), kind) == [(datetime.datetime(2013, 1, 31, 5),)]


UTC = datetime.UTC
TIMES = {
    "plain": ("2013-01-31 05:00:00.25", datetime.datetime(2013, 1, 31, 5, microsecond=250_000, tzinfo=UTC)),
    "zulu": ("2013-01-31T05:00:00Z", datetime.datetime(2013, 1, 31, 5, tzinfo=UTC)),
    "offset": ("2013-01-31T05:00:00.000+02:00", datetime.datetime(2013, 1, 31, 3, tzinfo=UTC)),
    "day": ("2013-01-31", datetime.datetime(2013, 1, 31, tzinfo=UTC)),
}


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_instants_have_a_zone_or_are_in_utc(tmp_path, kind):
    """All of them in one file."""
    said = [text for text, _ in TIMES.values()]
    lines = ["at", *said] if kind == "csv" else [f'{{"at": "{text}"}}' for text in said]
    path = written(tmp_path / "data", "\n".join(lines) + "\n")
    wanted = [at for _, at in TIMES.values()]
    assert rows(path, kind, StructType().add("at", "timestamp")) == [(at,) for at in wanted]
    plain = [(at.replace(tzinfo=None),) for at in wanted]
    assert rows(path, kind, StructType().add("at", "timestamp_ntz")) == plain


@pytest.mark.parametrize("years", [[2013], [1500, 9999]], ids=["near", "far"])
def test_times_of_96_bits_are_instants_as_spark_has_written_them(tmp_path, years):
    times = [datetime.datetime(year, 1, 1, 5) for year in years]
    table = pyarrow.table({"at": pyarrow.array(times, pyarrow.timestamp("us"))})
    pyarrow.parquet.write_table(table, tmp_path / "data", use_deprecated_int96_timestamps=True)
    assert [type(field.dataType) for field in source(tmp_path / "data", "parquet").schema()] == [TimestampType]
    assert rows(tmp_path / "data", "parquet") == [(at.replace(tzinfo=UTC),) for at in times]


def test_only_what_is_empty_is_null_in_csv(tmp_path):
    path = written(tmp_path / "data", 'word,price\nNA,1.5\nnull,NaN\n"",\n,2\n')
    found = rows(path, "csv")
    assert [word for word, _ in found] == ["NA", "null", "", None]
    assert [found[0][1], math.isnan(found[1][1]), *(price for _, price in found[2:])] == [1.5, True, None, 2.0]


@pytest.mark.parametrize("text", ["n,word", "n,word\r\n"], ids=["open", "ended"])
def test_a_file_of_a_header_alone_has_columns_and_no_rows(tmp_path, text):
    path = written(tmp_path / "data", text)
    assert source(path, "csv").schema() == StructType().add("n", "string").add("word", "string")
    assert rows(path, "csv") == rows(path, "csv", SCHEMA) == []


def test_times_of_day_are_text(tmp_path):
    assert rows(written(tmp_path / "data", "at\n05:00:00\n"), "csv") == [("05:00:00",)]


def test_text_has_the_name_that_a_schema_gives_it(tmp_path):
    assert rows(written(tmp_path / "data", "a\nb"), "text", StructType().add("line", "string")) == [("a",), ("b",)]


def test_json_has_days_as_text(tmp_path):
    path = written(tmp_path / "data", '{"day": "2013-01-31"}\n')
    assert rows(path, "json", StructType().add("day", "date")) == [(datetime.date(2013, 1, 31),)]


def test_names_of_folders_are_columns(tmp_path):
    written(tmp_path / "year=2013" / "place=NYC" / "a.csv", CSV)
    written(tmp_path / "year=2014" / "place=7" / "a.csv", "n,word\n5,five\n")
    assert rows(tmp_path, "csv")[3:] == [(44, "four", 2013, "NYC"), (5, "five", 2014, "7")]
    kinds = [type(field.dataType) for field in source(tmp_path, "csv").schema()]
    assert kinds == [LongType, StringType, IntegerType, StringType]


FOLDERS: dict[str, tuple[list[str], type, list[Any]]] = {
    "escaped": (["a%3Ab%2Fc", "d"], StringType, ["a:b/c", "d"]),
    "null": (["__HIVE_DEFAULT_PARTITION__", "7"], IntegerType, [None, 7]),
    "all null": (["__HIVE_DEFAULT_PARTITION__"], StringType, [None]),
    "int": ([str(-(1 << 31))], IntegerType, [-(1 << 31)]),
    "long": ([str(1 << 31)], LongType, [1 << 31]),
    "too long": ([str(1 << 63)], StringType, [str(1 << 63)]),
}


@pytest.mark.parametrize("case", FOLDERS)
def test_names_of_folders_are_read_as_spark_writes_them(tmp_path, case):
    names, kind, values = FOLDERS[case]
    for number, name in enumerate(names):
        written(tmp_path / f"key={name}" / "a.txt", str(number))
    assert type(source(tmp_path, "text").schema()["key"].dataType) is kind
    assert dict(rows(tmp_path, "text")) == {str(number): value for number, value in enumerate(values)}


def test_files_are_found_by_folder_and_pattern_and_some_names_do_not_count(tmp_path):
    for name in ("a/1.txt", "a/b/2.txt", "a/3.log", "a/_SUCCESS", "a/.4.txt", "c/5.txt", "a/_tmp/6.txt"):
        written(tmp_path / name, name)
    assert [one for (one,) in rows(tmp_path / "a", "text")] == ["a/1.txt", "a/3.log", "a/b/2.txt"]
    assert [one for (one,) in rows(tmp_path / "*" / "*.txt", "text")] == ["a/1.txt", "c/5.txt"]
    both = f"{tmp_path}/c, file://{tmp_path}/a/b"
    assert [one for (one,) in rows(both, "text")] == ["a/b/2.txt", "c/5.txt"]


def test_folders_are_listed_once_for_columns_and_splits(tmp_path):
    written(tmp_path / "a.txt", "one")
    made = source(tmp_path, "text")
    schema = made.schema()
    written(tmp_path / "b.txt", "two")
    assert b"a.txt" not in pickle.dumps(made)
    reader = made.reader(schema)
    assert [Path(split.path).name for split in reader.partitions()] == ["a.txt"]
    assert len(made.reader(schema).partitions()) == len(reader.partitions()) == 2, "anew, for whoever asks again"


def test_long_splits_come_first(tmp_path):
    written(tmp_path / "a", "x" * 10)
    written(tmp_path / "b", "x" * 25)
    lengths = [one.stop - one.start for one in source(tmp_path, "text", splitBytes=20).reader(None).partitions()]
    assert lengths == [20, 10, 5]


def test_a_file_that_changes_while_a_run_lasts_is_named(tmp_path):
    path = written(tmp_path / "data", CSV)
    reader = source(path, "csv").reader(SCHEMA)
    (split,) = reader.partitions()
    written(path, CSV + "5,five\n")
    with pytest.raises(ValueError, match=rf"{path} has {len(CSV) + 7} bytes, and had {len(CSV)} .*begin anew"):
        list(reader.read(split))
    written(path, CSV.replace("44", "55"))
    os.utime(path, (0, 1_000_000_000))
    with pytest.raises(ValueError, match=rf"{path} was written to at 2001-09-09 01:46:40.*begin anew"):
        list(reader.read(split))
    path.unlink()
    with pytest.raises(ValueError, match=rf"{path} is gone"):
        list(reader.read(split))


WRONG: dict[str, tuple[dict[str, str | None], str]] = {
    "no path": ({"path": None}, "needs the option 'path'"),
    "no format": ({"format": None}, "format=None: it is one of parquet, csv"),
    "format": ({"format": "orc"}, "format='orc'"),
    "spelling": ({"spliBytes": "1"}, "no option 'splibytes': did you mean 'splitBytes'"),
    "size": ({"splitBytes": "1x"}, "splitBytes='1x'"),
    "no size": ({"splitBytes": "0"}, "splitBytes='0'"),
    "flag": ({"header": "yes"}, "header='yes': it is true or false"),
    "delimiter": ({"delimiter": "::"}, "delimiter='::'"),
    "no file": ({"path": "nowhere/*.csv"}, r"there is no file at nowhere/\*\.csv"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named_with_the_option(tmp_path, case):
    said, problem = WRONG[case]
    options: dict[str, str | None] = {"path": str(written(tmp_path / "data", CSV)), "format": "csv", **said}
    with pytest.raises(ValueError, match=problem):
        Files({name: value for name, value in options.items() if value is not None}).schema()


BROKEN: dict[str, tuple[str, bytes]] = {
    "parquet": ("parquet", b"no such thing"),
    "json": ("json", b"no such thing"),
    "letters": ("csv", b"n\xff\n1\n"),
    "columns": ("csv", b"n,n\n1,2\n"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_file_of_another_format_is_named(tmp_path, case):
    kind, data = BROKEN[case]
    path = tmp_path / "data"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=f"{path} cannot be read as {kind}"):
        source(path, kind).schema()


def test_what_breaks_within_is_named_too(tmp_path):
    path = tmp_path / "data.gz"
    path.write_bytes(gzip.compress(b"line\n" * 1000)[:-9])
    with pytest.raises(ValueError, match=f"{path} cannot be read as text: Truncated"):
        rows(path, "text")
    path.write_bytes(b"no such thing")
    with pytest.raises(ValueError, match=f"{path} cannot be read as text: zlib"):
        rows(path, "text")
    (tmp_path / "data").write_bytes(b"\xff\n")
    with pytest.raises(ValueError, match=f"{tmp_path}/data cannot be read as text: .*utf-8"):
        rows(tmp_path / "data", "text")


def test_a_value_of_another_type_is_named(tmp_path):
    path = written(tmp_path / "data", "n,word\n1,one\nx,two\n")
    with pytest.raises(ValueError, match=rf"(?s){path} cannot be read as csv.*column n: .*invalid value 'x'"):
        rows(path, "csv", SCHEMA)
    pyarrow.parquet.write_table(pyarrow.table({"n": ["x"]}), tmp_path / "p")
    with pytest.raises(ValueError, match=f"column n of {tmp_path}/p is no int64"):
        rows(tmp_path / "p", "parquet", SCHEMA)


PROGRAM = """
import pickle, sys
sys.modules["rekindle"] = None
reader, *splits = map(pickle.loads, pickle.load(open(sys.argv[1], "rb")))
for split in splits:
    for batch in reader.read(split):
        print(split, batch.to_pylist())
"""


@pytest.mark.parametrize("kind", ["csv", "json", "parquet", "text"])
def test_no_rekindle_is_needed_where_files_are_read(tmp_path, kind):
    path = tmp_path / "data"
    if kind == "parquet":
        pyarrow.parquet.write_table(pyarrow.table({"n": [1]}), path)
    else:
        written(path, {"csv": "n\n1\n", "json": '{"n": 1}\n', "text": "1\n"}[kind])
    made = source(path, kind)
    reader = made.reader(made.schema())
    sent = [pickled("stage", "it", one) for one in (reader, *reader.partitions())]
    (tmp_path / "sent").write_bytes(pickle.dumps(sent))
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "sent")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    size = path.stat().st_size
    row = {"value": "1"} if kind == "text" else {"n": 1}
    assert done.stdout.strip() == f"{path}, bytes 0 to {size} of {size} {[row]}", done.stderr
