"""What a manifest finds out about its files, and manifests that are not whole."""

import json
import os
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from rekindle.runtime.manifest import Manifest, StoredFile
from rekindle.runtime.storage import PosixStorage
from rekindle.runtime.task import footer_checksum


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
    with pytest.raises(ValueError, match=r"not a whole manifest|Expecting|format 2"):
        Manifest.parse(text.encode())


def test_a_length_of_the_footer_that_makes_no_sense_is_damage_and_reads_no_more():
    asked: list[int] = []

    def last(length: int) -> bytes:
        asked.append(length)
        return b"x" * 92 + b"\xff\xff\xff\x7fPAR1"

    with pytest.raises(ValueError, match="not those of a Parquet file"):
        footer_checksum(last, 100)
    assert len(asked) == 1
