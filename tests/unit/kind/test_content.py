"""What is kept by content is made again exactly when something that went in has changed."""

from dataclasses import replace

from tests.kind import binaries, cluster
from tests.kind.images import content_tag


def test_a_tag_changes_with_a_files_bytes_its_name_and_its_mode(tmp_path):
    file = tmp_path / "script.sh"
    file.write_text("one")
    seen = {content_tag("x", tmp_path)}
    file.write_text("two")
    seen.add(content_tag("x", tmp_path))
    file.chmod(0o755)
    seen.add(content_tag("x", tmp_path))
    file.rename(tmp_path / "other.sh")
    seen.add(content_tag("x", tmp_path))
    assert len(seen) == 4
    assert content_tag("x", tmp_path) in seen


def test_a_program_is_kept_by_version_and_by_how_it_is_built(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    one = binaries.CONTAINERD
    assert one.folder == replace(one).folder
    assert len({one.folder, replace(one, version="v9").folder, replace(one, tags=()).folder}) == 3
    assert tmp_path in one.folder.parents


def test_kinds_own_nodes_keep_kinds_own_pod_network(tmp_path):
    assert cluster.kind_config({}, own=True)["networking"]["disableDefaultCNI"] is True
    assert cluster.kind_config({}, own=False)["networking"]["disableDefaultCNI"] is False
    assert [node["role"] for node in cluster.kind_config({}, own=True)["nodes"]] == ["control-plane"] + ["worker"] * 3
