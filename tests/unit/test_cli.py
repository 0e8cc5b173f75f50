"""The command line: help that teaches, errors with their exit codes."""

import pytest

from rekindle import cli
from rekindle.local.run import RunOptions
from rekindle.local.supervisor import Outcome
from rekindle.runtime.errors import EnvironmentProblem, StoreRefused

MANIFEST = """\
apiVersion: rekindle.dev/v1beta2
kind: SparkApplication
metadata: {name: flights}
spec: {type: Python, sparkVersion: "4", mainApplicationFile: main.py}
"""


@pytest.fixture
def manifest(tmp_path):
    path = tmp_path / "app.yaml"
    path.write_text(MANIFEST)
    (tmp_path / "main.py").write_text("")
    return path


def usage_error(capsys, *arguments):
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("command", [[], ["run"]])
def test_help_has_the_exit_codes(capsys, command):
    with pytest.raises(SystemExit) as caught:
        cli.main([*command, "--help"])
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    for code in ("  0  ", "  1  ", "  2  ", "  3  ", "  4  ", "  130  "):
        assert code in shown


def test_help_of_run_has_examples_and_the_faults(capsys):
    with pytest.raises(SystemExit):
        cli.main(["run", "--help"])
    shown = capsys.readouterr().out
    assert "rekindle run app.yaml --nodes 4 --store /data/flights --report report.json" in shown
    assert "corrupt-partition" in shown


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--nodes", "0"], "'0' is not a number of nodes from 1 to 250"),
        (["--nodes", "x"], "'x' is not a number of nodes"),
        (["--hold-cores", "0"], "'0' is not a number of cores; write such as 0.6"),
        (["--store-limit", "lots"], "'lots' is not a size"),
        (["--chaos", "kill-drver"], "did you mean kill-driver?"),
    ],
)
def test_a_wrong_argument_is_told_with_the_remedy(capsys, manifest, arguments, says):
    assert says in usage_error(capsys, "run", str(manifest), *arguments)


def test_no_command_is_told(capsys):
    assert "COMMAND" in usage_error(capsys)


def test_a_bad_manifest_is_exit_code_2(capsys, tmp_path):
    assert cli.main(["run", str(tmp_path / "none.yaml")]) == 2
    assert "none.yaml: no such file" in capsys.readouterr().err
    assert cli.main(["explain", str(tmp_path)]) == 2


def test_chaos_that_cannot_be_is_exit_code_2(capsys, manifest):
    assert cli.main(["run", str(manifest), "--chaos", "lose-volume"]) == 2
    assert "the store has one volume; set recovery.volumes" in capsys.readouterr().err


def test_no_java_is_exit_code_3(capsys, manifest, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    assert cli.main(["run", str(manifest)]) == 3
    shown = capsys.readouterr().err
    assert "rekindle: no Java found" in shown
    assert "-> install one" in shown


@pytest.mark.parametrize(("error", "code"), [(EnvironmentProblem, 3), (StoreRefused, 4), (KeyboardInterrupt, 130)])
def test_errors_have_their_exit_codes(manifest, monkeypatch, error, code):
    def fail(*_):
        raise error("no")

    monkeypatch.setattr(cli, "run_application", fail)
    assert cli.main(["run", str(manifest)]) == code


def test_options_reach_the_run(manifest, monkeypatch, tmp_path, capsys):
    seen: list[RunOptions] = []

    def run(options, screen):
        seen.append(options)
        return Outcome(1, "stage x failed", 1, 2.0)

    monkeypatch.setattr(cli, "run_application", run)
    arguments = "--nodes 4 --store s --store-limit 2g --hold-cores 0.6 --fresh --report r.json"
    chaos = "--chaos kill-driver@time=1 --chaos kill-node:node=2"
    code = cli.main(["run", str(manifest), *arguments.split(), *chaos.split()])
    assert code == 1
    assert capsys.readouterr().err == "rekindle: stage x failed\n"
    options = seen[0]
    assert (options.nodes, str(options.store), options.store_limit) == (4, "s", 2 << 30)
    assert (options.hold_cores, options.fresh, str(options.report)) == (0.6, True, "r.json")
    assert [fault.text for fault in options.chaos] == ["kill-driver@time=1", "kill-node:node=2"]


@pytest.mark.parametrize(("arguments", "form"), [([], "true"), (["--mermaid"], "mermaid")])
def test_explain_asks_for_a_form(manifest, monkeypatch, arguments, form):
    seen = []

    def explain(path, wanted, screen):
        seen.append(wanted)
        return Outcome(0, "", 1, 1.0)

    monkeypatch.setattr(cli, "explain_application", explain)
    assert cli.main(["explain", str(manifest), *arguments]) == 0
    assert seen == [form]


def test_versions_are_told(capsys):
    assert cli.main(["version"]) == 0
    assert capsys.readouterr().out.startswith("rekindle ")
