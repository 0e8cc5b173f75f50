"""What a manifest finds out about its files, and manifests that are not whole."""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from rekindle.runtime.manifest import Manifest, StoredFile, combine_digests
from rekindle.runtime.posix_storage import PosixStorage
from rekindle.runtime.task import WriterSpec, _Rows, _write_files, footer_checksum, sealed


@pytest.fixture
def stored(tmp_path: Path) -> StoredFile:
    path = tmp_path / "part.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"n": range(1000)}), path)
    data = path.read_bytes()
    return StoredFile(path.name, len(data), footer_checksum(lambda length: data[-length:], len(data)))


def flip(path: Path, position: int) -> None:
    with open(path, "r+b") as file:
        file.seek(position, os.SEEK_SET if position >= 0 else os.SEEK_END)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


def damage(stored: StoredFile, folder: Path) -> str | None:
    return stored.damage(PosixStorage(str(folder)))


def test_a_file_as_it_was_written_is_whole(stored, tmp_path):
    assert damage(stored, tmp_path) is None


@pytest.mark.requirement("S7-3")
@pytest.mark.parametrize("position", [-1, -6, -9, -100])
def test_a_flipped_bit_in_the_footer_is_damage(stored, tmp_path, position):
    flip(tmp_path / stored.path, position)
    assert "part.parquet: its" in (damage(stored, tmp_path) or "")


def test_a_missing_or_shortened_file_is_damage(stored, tmp_path):
    os.truncate(tmp_path / stored.path, stored.bytes - 1)
    assert damage(stored, tmp_path) == f"part.parquet: {stored.bytes - 1} bytes, {stored.bytes} were written"
    (tmp_path / stored.path).unlink()
    assert damage(stored, tmp_path) == "part.parquet: No such file or directory"


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", json.dumps({"format": 2}), json.dumps({"format": 1})])
def test_what_is_no_whole_manifest_is_refused(text):
    with pytest.raises(ValueError, match=r"not whole|Expecting"):
        Manifest.parse(text.encode())


FIELDS: dict[str, Any] = {
    "format": 1,
    "stage": "s",
    "partition": 0,
    "version": 1,
    "task": 7,
    "writer": "w",
    "rows": 3,
    "bytes": 100,
    "digest": "3-00000000000000ab-00000000000000cd",
    "files": [{"path": "data/part.parquet", "bytes": 100, "footer": 12, "content": None}],
    "seconds": 0.25,
    "finishedAt": 1792.5,
}


@pytest.mark.parametrize("fields", [{}, {**FIELDS, "format": 2}, {**FIELDS, "files": None}, {**FIELDS, "rows": None}])
def test_what_no_version_of_ours_wrote_is_refused(fields):
    with pytest.raises(ValueError, match=r"not a whole manifest|format 2"):
        Manifest.parse(sealed(fields).encode())


def test_a_manifest_with_a_flipped_bit_is_never_read_as_another():
    data = sealed(FIELDS).encode()
    whole = Manifest.parse(data)
    for place in range(8 * len(data)):
        changed = bytearray(data)
        changed[place // 8] ^= 1 << place % 8
        try:
            assert Manifest.parse(bytes(changed)) == whole  # a blank that became another
        except ValueError:
            continue
    for length in range(len(data)):
        with pytest.raises(ValueError, match=r"."):
            Manifest.parse(data[:length])


@pytest.mark.parametrize(
    "odd", ["[" * 100_000, '{"crc": NaN}', '{"crc": 1e999}', '{"crc": ' + "9" * 5000 + "}", "\ufeff{}"]
)
def test_json_that_nobody_writes_is_refused_like_all_that_is_not_whole(odd):
    with pytest.raises(ValueError, match=r"."):
        Manifest.parse(odd.encode())


@pytest.mark.requirement("S7-3")
@pytest.mark.parametrize("file_format", ["parquet", "csv"])
def test_a_flipped_bit_anywhere_in_a_file_of_a_sink_is_damage(tmp_path, file_format):
    """Nobody but its readers would look at its pages, and a CSV has no checksums at all."""
    batch = pyarrow.RecordBatch.from_pydict({"n": [1, 2, 3], "w": ["a", "b", "c"]})
    storage = PosixStorage(str(tmp_path))
    spec = WriterSpec(storage, "s", "w", "m", ("data",), file_format, ("n", "w"), signature=None, checked=True)
    given = _Rows(spec, iter([batch]))
    (file,) = _write_files(spec, 0, "data", given)
    rows = given.count
    stored = StoredFile(file["path"], file["bytes"], file["footer"], file["content"])
    assert (rows, damage(stored, tmp_path)) == (3, None)
    for position in range(stored.bytes):
        flip(tmp_path / stored.path, position)
        assert f"{stored.path}: its" in (damage(stored, tmp_path) or "")
        flip(tmp_path / stored.path, position)
    assert damage(stored, tmp_path) is None


def test_a_length_of_the_footer_that_makes_no_sense_is_damage_and_reads_no_more():
    asked: list[int] = []

    def last(length: int) -> bytes:
        asked.append(length)
        return b"x" * 92 + b"\xff\xff\xff\x7fPAR1"

    with pytest.raises(ValueError, match="not those of a Parquet file"):
        footer_checksum(last, 100)
    assert len(asked) == 1


@pytest.mark.requirement("S7-14")
def test_a_page_header_that_hides_rows_is_corruption(tmp_path):
    """The checksum of a page does not cover its header."""
    batch = pyarrow.RecordBatch.from_pydict({"n": list(range(5))})
    spec = WriterSpec(PosixStorage(str(tmp_path)), "s", "w", "m", ("data",), "parquet", ("n",), signature=None)
    (file,) = _write_files(spec, 0, "data", _Rows(spec, iter([batch])))
    stored = (StoredFile(file["path"], file["bytes"], file["footer"]),)
    manifest = Manifest("s", 0, 1, 1, "w", 5, file["bytes"], None, stored, 0.0, 0.0)
    content = (tmp_path / file["path"]).read_bytes()
    for place in range(8 * 100):
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        (tmp_path / file["path"]).write_bytes(changed)
        if manifest.corrupt(spec.storage) is None:
            table = pyarrow.parquet.read_table(tmp_path / file["path"], page_checksum_verification=True)
            assert table["n"].to_pylist() == list(range(5))


def test_a_results_digest_has_the_rows_of_all_partitions_and_the_columns_of_each():
    assert combine_digests(["1-01-02-aa", "2-03-04-aa", "0-00-00-aa"]) == f"3-{4:016x}-{6:016x}-aa"
    assert combine_digests(["1-01-02", "2-03-04"]) == f"3-{4:016x}-{6:016x}"  # as older versions wrote them
    assert combine_digests(["1-01-02-aa", None]) is None


def test_partitions_of_different_columns_have_no_digest_together():
    assert combine_digests(["1-01-02-aa", "2-03-04-bb"]) is None
    assert combine_digests(["1-01-02", "2-03-04-bb"]) is None
