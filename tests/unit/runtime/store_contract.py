"""What every store keeps, wherever it lies: put_if_absent is whole or not at all, and the first one wins."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from rekindle.runtime.store import Store


class StoreContract:
    """Tests of a `store` that is empty; a subclass has the fixture."""

    def test_the_first_writer_of_a_name_wins(self, store: Store) -> None:
        assert store.put_if_absent("a/b.json", b"first")
        assert not store.put_if_absent("a/b.json", b"second")
        assert store.get("a/b.json") == b"first"

    @pytest.mark.requirement("S2-46", "S5-13")
    def test_of_many_at_the_same_moment_exactly_one_wins(self, store: Store) -> None:
        for name in ("name", "b/name", "c/d/name"):
            barrier, wins = threading.Barrier(8), list[int]()

            def contend(number: int, name: str = name, barrier: threading.Barrier = barrier, wins: list[int] = wins):
                barrier.wait(timeout=10)
                if store.put_if_absent(name, str(number).encode()):
                    wins.append(number)

            threads = [threading.Thread(target=contend, args=(number,)) for number in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(timeout=10)
            assert len(wins) == 1
            assert store.get(name) == str(wins[0]).encode()

    def test_names_lists_one_level_sorted_and_nothing_for_what_is_not_there(self, store: Store) -> None:
        for name in ("m/2", "m/1", "m/.hidden/3", "mm"):
            store.put_if_absent(name, b"")
        assert store.names("m") == [".hidden", "1", "2"]
        assert store.names("") == sorted({"m", "mm"} | set(store.names("")) & {".aside"})
        assert store.names("nowhere") == []
        assert store.get("nowhere") is None

    def test_it_holds_what_lies_anywhere_below(self, store: Store) -> None:
        store.put_if_absent("volume-0/data/a/b", b"")
        assert store.holds("volume-0")
        store.delete("volume-0/data/a/b")
        assert not store.holds("volume-0")
        assert not store.holds("nowhere")

    def test_names_may_have_letters_of_any_language(self, store: Store) -> None:
        name = "runs/0001/stages/größe/manifests/p00000-v0001.json"
        assert store.put_if_absent(name, b"1")
        assert store.names("runs/0001/stages") == ["größe"]
        assert store.names("runs/0001/stages/größe/manifests") == ["p00000-v0001.json"]
        store.delete("runs/0001/stages/größe")
        assert store.get(name) is None

    def test_replace_overwrites_and_makes(self, store: Store) -> None:
        store.replace("lease/lease.json", b"1")
        store.replace("lease/lease.json", b"22")
        assert store.get("lease/lease.json") == b"22"

    def test_delete_takes_a_name_or_everything_below_it(self, store: Store) -> None:
        for name in ("data/a/1", "data/a/b/2", "data/ab", "data/b"):
            store.put_if_absent(name, b"")
        store.delete("data/a")
        store.delete("data/b")
        store.delete("data/never")
        assert store.names("data") == ["ab"]

    def test_the_end_of_a_file_comes_with_its_size(self, store: Store) -> None:
        store.put_if_absent("file", b"0123456789")
        assert store.storage.tail("file", 3) == (10, b"789")
        assert store.storage.tail("file", 100) == (10, b"0123456789")
        with pytest.raises(FileNotFoundError):
            store.storage.tail("none", 3)

    def test_a_file_is_there_once_it_is_written_whole(self, store: Store, tmp_path) -> None:
        content = bytes(range(256)) * 50_000  # more than one part of an upload
        with store.storage.writing("data/x/file") as path, open(path, "wb") as file:
            file.write(content)
        assert store.get("data/x/file") == content
        store.storage.fetch("data/x/file", str(tmp_path / "fetched"))
        assert (tmp_path / "fetched").read_bytes() == content
        with store.storage.reading("data/x/file") as path, open(path, "rb") as file:
            assert file.read() == content

    def test_a_file_whose_writing_broke_off_is_not_there(self, store: Store) -> None:
        def write_half() -> None:
            with store.storage.writing("data/attempt/file") as path:
                Path(path).write_bytes(b"half")
                raise OSError("no space")

        with pytest.raises(OSError, match="no space"):
            write_half()
        assert not store.holds("data")

    def test_to_prepare_it_leaves_nothing(self, store: Store) -> None:
        store.prepare()
        assert store.names(".aside") == []
