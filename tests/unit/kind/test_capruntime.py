"""The runtime that asks only for what the machine has: which file it changes, and what stays in it."""

from pathlib import Path

import pytest

from tests.kind.capruntime import NAMES, bounding_set, file_to_change, lessen


def test_the_bounding_set_is_read_from_the_kernels_bits():
    without_resource = (1 << len(NAMES)) - 1 - (1 << 24)
    have = bounding_set(f"Name:\tx\nCapPrm:\t0\nCapBnd:\t{without_resource:016x}\n")
    assert {f"CAP_{name}" for name in NAMES} - have == {"CAP_SYS_RESOURCE"}


@pytest.mark.parametrize(
    ("arguments", "change"),
    [
        (["--root", "/r", "create", "--bundle", "/b", "--pid-file", "/b/p", "id"], (Path("/b/config.json"), "process")),
        (["run", "-b=/b", "id"], (Path("/b/config.json"), "process")),
        (["create", "id"], (Path("config.json"), "process")),
        (["--log", "/l", "exec", "--process", "/p.json", "--detach", "id"], (Path("/p.json"), "")),
        (["exec", "id", "true"], None),
        (["kill", "--all", "id", "9"], None),
        (["--version"], None),
    ],
)
def test_only_what_starts_a_process_is_changed(arguments, change):
    assert file_to_change(arguments) == change


def test_what_the_machine_cannot_give_is_taken_out():
    process = {
        "args": ["init"],
        "capabilities": {"bounding": ["CAP_CHOWN", "CAP_SYS_RESOURCE"], "ambient": None},
        "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1 << 20, "soft": 512}],
    }
    lessen(process, frozenset({"CAP_CHOWN"}), open_files=20000)
    assert process["capabilities"] == {"bounding": ["CAP_CHOWN"], "ambient": []}
    assert process["rlimits"] == [{"type": "RLIMIT_NOFILE", "hard": 20000, "soft": 512}]
    assert process["args"] == ["init"]


def test_a_machine_with_everything_changes_no_limits():
    process = {"rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1 << 20, "soft": 512}]}
    lessen(process, frozenset({"CAP_SYS_RESOURCE"}), open_files=20000)
    assert process["rlimits"][0]["hard"] == 1 << 20
