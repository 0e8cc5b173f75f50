"""A store in a folder, and where a store may be at all."""

from __future__ import annotations

import errno
import os
import re
import threading
from pathlib import Path

import pytest

from rekindle.runtime.errors import EnvironmentProblem, PipelineMisuse, StoreFull, StoreRefused
from rekindle.runtime.posix_storage import PosixStorage
from rekindle.runtime.s3_storage import S3Storage
from rekindle.runtime.store import Store, s3_options
from tests.unit.runtime.store_contract import StoreContract


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.at(tmp_path / "store").prepare()


class TestFolder(StoreContract):
    """The contract, kept by a folder."""


def test_a_failed_write_leaves_neither_the_name_nor_a_leftover(store, monkeypatch):
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreFull, match=r"(?s)no space left in the store .*free space there"):
        store.put_if_absent("name", b"data")
    monkeypatch.undo()
    assert store.get("name") is None
    assert os.listdir(store.folder / ".aside") == []


def test_a_folder_that_cannot_be_written_is_named_with_the_remedy(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreRefused, match=r"(?s)cannot use the store .*file/store: .*recovery\.store must be a place"):
        Store.at(tmp_path / "file" / "store").prepare()


def test_an_executor_does_not_take_a_missing_volume_for_an_empty_one(tmp_path):
    unmounted = PosixStorage(str(tmp_path / "volume"))
    with pytest.raises(FileNotFoundError):
        unmounted.put_if_absent("manifest", b"data")


def test_a_bucket_without_its_client_is_said(monkeypatch):
    monkeypatch.setattr("rekindle.runtime.store.find_spec", lambda name: None)
    with pytest.raises(EnvironmentProblem, match=r"(?s)obstore.*pip install obstore"):
        Store.at("s3://bucket/x")


def test_a_link_whose_answer_was_lost_is_not_taken_for_that_of_another(store, monkeypatch):
    """NFS asks again when it gets no answer, and is told that the name exists."""
    link = os.link

    def asked_twice(source: str, target: str) -> None:
        link(source, target)
        link(source, target)

    with monkeypatch.context() as network:
        network.setattr(os, "link", asked_twice)
        assert store.put_if_absent("name", b"first")
        assert not store.put_if_absent("name", b"second")
    assert store.get("name") == b"first"


class Forgetful(PosixStorage):
    """A server that ignores conditions of a put, as some do."""

    def put_if_absent(self, name: str, data: bytes) -> bool:
        self.replace(name, data)
        return True


def test_a_place_that_overwrites_what_is_there_is_refused(tmp_path):
    store = Store(Forgetful(str(tmp_path)))
    with pytest.raises(StoreRefused, match=r"(?s)overwrites what it was asked to create only if absent.*If-None-Match"):
        store.prepare()
    assert store.names(".aside") == []


@pytest.mark.parametrize(
    "place",
    [
        "gs://bucket/x",
        "s3://",
        "hdfs://host/x",
        "https://bucket.example/x",
        "s3://b/a//b",
        "s3://b/x#1",
        "s3://b/größe",
    ],
)
def test_a_place_of_another_kind_is_refused_by_name(place):
    with pytest.raises(
        PipelineMisuse, match=rf"(?s)recovery\.store: {re.escape(place)} is neither .*s3://bucket/prefix"
    ):
        Store.at(place)


def test_a_folder_may_be_named_by_a_url():
    assert Store.at("file:///data/my%20store").folder == Path("/data/my store")


def test_spark_reads_a_folder_by_its_name_as_it_is():
    assert Store.at("/data/a b%20=+#é").storage.uri("x") == "file:///data/a b%20=+#é/x"


@pytest.mark.parametrize(
    ("place", "location", "uri"),
    [
        ("s3://bucket", "s3://bucket", "s3a://bucket/runs/x"),
        ("s3://bucket/", "s3://bucket", "s3a://bucket/runs/x"),
        ("s3a://bucket/a/b/", "s3://bucket/a/b", "s3a://bucket/a/b/runs/x"),
    ],
)
def test_a_bucket_is_named_as_users_do_and_read_as_spark_does(place, location, uri):
    storage = Store.at(place).storage
    assert isinstance(storage, S3Storage)
    assert (storage.location, storage.uri("runs/x")) == (location, uri)


def test_a_bucket_is_reached_as_spark_is_told_to():
    conf = {
        "spark.hadoop.fs.s3a.endpoint": "store.example:9000",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.access.key": "everyone",
        "spark.hadoop.fs.s3a.bucket.mine.access.key": "me",
        "spark.hadoop.fs.s3a.secret.key": "secret",
        "spark.hadoop.fs.s3a.endpoint.region": "eu-central-1",
    }
    assert dict(s3_options("mine", conf)) == {
        "endpoint": "http://store.example:9000",
        "region": "eu-central-1",
        "access_key_id": "me",
        "secret_access_key": "secret",
    }
    assert dict(s3_options("other", conf))["access_key_id"] == "everyone"
    assert s3_options("mine", {"spark.hadoop.fs.s3a.endpoint": "store.example"}) == (
        ("endpoint", "https://store.example"),
    )
    assert s3_options("mine", {}) == ()


def test_a_folder_that_hangs_is_not_waited_for_without_an_end(tmp_path):
    """What nobody writes to a pipe is waited for in the kernel, as a file of a server that is away is."""
    store = Store.at(tmp_path / "store", patience=0.2).prepare()
    pipe = tmp_path / "store" / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(StoreRefused, match=r"cannot use the store .*pipe: no answer for 0\.2 s"):
        store.get("pipe")
    store.replace("other", b"and the store is used as before")
    assert store.get("other") == b"and the store is used as before"
    with open(pipe, "wb"):  # lets go of who waits
        pass


def test_nobody_waits_for_calls_of_a_store_that_is_gone(tmp_path):
    before = set(threading.enumerate())
    store = Store.at(tmp_path / "store").prepare()
    (helper,) = set(threading.enumerate()) - before
    del store
    helper.join(10)
    assert not helper.is_alive()
