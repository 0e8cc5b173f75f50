"""Files by ranges: all splits together are the whole, whatever their size."""

from __future__ import annotations

import datetime
import gzip
import itertools
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from rekindle.connectors.files import Files

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


@pytest.mark.parametrize(
    ("kind", "text"), [("csv", "at\n2013-01-31 05:00:00\n"), ("json", '{"at": "2013-01-31 05:00:00"}')]
)
def test_times_without_a_zone_stay_so(tmp_path, kind, text):
    assert rows(written(tmp_path / "data", text), kind) == [(datetime.datetime(2013, 1, 31, 5),)]


def test_json_has_days_as_text(tmp_path):
    path = written(tmp_path / "data", '{"day": "2013-01-31"}\n')
    assert rows(path, "json", StructType().add("day", "date")) == [(datetime.date(2013, 1, 31),)]


def test_names_of_folders_are_columns(tmp_path):
    written(tmp_path / "year=2013" / "place=NYC" / "a.csv", CSV)
    written(tmp_path / "year=2014" / "place=7" / "a.csv", "n,word\n5,five\n")
    assert rows(tmp_path, "csv")[3:] == [(44, "four", 2013, "NYC"), (5, "five", 2014, "7")]
    kinds = [type(field.dataType) for field in source(tmp_path, "csv").schema()]
    assert kinds == [LongType, StringType, IntegerType, StringType]


def test_files_are_found_by_folder_and_pattern_and_some_names_do_not_count(tmp_path):
    for name in ("a/1.txt", "a/b/2.txt", "a/3.log", "a/_SUCCESS", "a/.4.txt", "c/5.txt", "a/_tmp/6.txt"):
        written(tmp_path / name, name)
    assert [one for (one,) in rows(tmp_path / "a", "text")] == ["a/1.txt", "a/3.log", "a/b/2.txt"]
    assert [one for (one,) in rows(tmp_path / "*" / "*.txt", "text")] == ["a/1.txt", "c/5.txt"]
    both = f"{tmp_path}/c, file://{tmp_path}/a/b"
    assert [one for (one,) in rows(both, "text")] == ["a/b/2.txt", "c/5.txt"]


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


@pytest.mark.parametrize(("kind", "text"), itertools.product(["parquet", "json"], ["no such thing"]))
def test_a_file_of_another_format_is_named(tmp_path, kind, text):
    path = written(tmp_path / "data", text)
    with pytest.raises(ValueError, match=f"{path} cannot be read as {kind}"):
        source(path, kind).schema()


def test_a_value_of_another_type_is_named(tmp_path):
    path = written(tmp_path / "data", "n,word\n1,one\nx,two\n")
    with pytest.raises(ValueError, match=rf"(?s){path} cannot be read as csv.*invalid value 'x'"):
        rows(path, "csv", SCHEMA)
    pyarrow.parquet.write_table(pyarrow.table({"n": ["x"]}), tmp_path / "p")
    with pytest.raises(ValueError, match=f"column n of {tmp_path}/p is no int64"):
        rows(tmp_path / "p", "parquet", SCHEMA)
