"""`python -m rekindle.controller`: what is wrong is said in one line, with an exit code."""

import pytest

from rekindle.controller.__main__ import main


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--lease-seconds", "1.5"], "argument --lease-seconds: 1.5 is too short: write 3 or more"),
        (["--lease-seconds", "long"], "argument --lease-seconds: invalid lease_seconds value: 'long'"),
        (["--log-format", "xml"], "argument --log-format: invalid choice: 'xml'"),
    ],
)
def test_a_wrong_flag_is_named(arguments, said, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_without_a_cluster_it_says_what_to_set(monkeypatch, capsys, tmp_path):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert main([]) == 2
    assert (
        capsys.readouterr().err
        == f"rekindle: no cluster: there is no {tmp_path / 'none'}; set KUBECONFIG, or run in a pod\n"
    )
