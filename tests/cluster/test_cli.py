"""`rekindle submit`, `list`, `status`, `logs`, `delete` against a cluster, as a person types them."""

import os
import subprocess
import sys

import pytest
import yaml

from tests.cluster.deployment import JOBS
from tests.cluster.marks import beside
from tests.kind.kubectl import kubeconfig, kubectl

pytestmark = [pytest.mark.timeout(600), beside]


def rekindle(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig()), "COLUMNS": "160"}
    command = [sys.executable, "-m", "rekindle.cli", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)


@pytest.fixture
def manifest(application, tmp_path):
    """Writes the manifest of a small application, and gives its path and its name."""

    def write(name: str, *arguments: str, **spec):
        app = application(name, *arguments, **spec)
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(app.manifest))
        return path, app

    return write


def test_an_application_from_submit_to_delete(manifest):
    path, _ = manifest("by-hand", "pi.py", "100")
    sent = rekindle("submit", str(path), "--wait")
    assert sent.returncode == 0, sent.stderr
    assert sent.stdout.splitlines()[0] == f"submitted {JOBS}/by-hand"
    assert sent.stdout.splitlines()[-1].startswith("COMPLETED attempt 1")
    listed = rekindle("list", "-A")
    assert listed.returncode == 0
    assert [JOBS, "by-hand", "COMPLETED"] in [line.split()[:3] for line in listed.stdout.splitlines()]
    told = rekindle("status", "by-hand", "-n", JOBS)
    assert all(word in told.stdout for word in ("COMPLETED", "SubmissionStarted", "DriverRunning"))
    described = rekindle("describe", "by-hand", "-n", JOBS)
    assert described.returncode == 0
    assert described.stdout.splitlines()[1].startswith("nobody has told of its job: it is no pipeline")
    log = rekindle("logs", "by-hand", "-n", JOBS, "--tail", "50")
    assert "counted 100" in log.stdout
    assert rekindle("delete", "by-hand", "-n", JOBS).returncode == 0
    again = rekindle("status", "by-hand", "-n", JOBS)
    assert again.returncode == 3
    assert again.stderr.startswith(f"rekindle: no application by-hand in namespace {JOBS}")


def test_a_failure_is_an_exit_code(manifest):
    path, _ = manifest("by-hand-failing", "fail.py")
    sent = rekindle("submit", str(path), "--wait")
    assert sent.returncode == 1
    assert "the driver ended with exit code 1" in sent.stdout


def test_a_field_that_somebody_else_keeps_is_taken_over_by_force_only(manifest):
    path, app = manifest("by-two", "pi.py", suspend=True)
    kubectl("apply", "--server-side", "--field-manager=gitops", "-f", str(path))
    app.manifest["spec"]["arguments"] = ["5"]
    path.write_text(yaml.safe_dump(app.manifest))
    refused = rekindle("submit", str(path))
    assert refused.returncode == 3
    assert "gitops" in refused.stderr
    assert "--force" in refused.stderr
    assert rekindle("submit", str(path), "--force").returncode == 0
    assert app.body["spec"]["arguments"] == ["5"]


def test_what_the_api_server_refuses_is_told_without_a_traceback(manifest):
    path, app = manifest("unsupported", "pi.py", suspend=True)
    wrong = app.manifest["spec"] | {"driver": {"cores": "many"}}
    path.write_text(yaml.safe_dump({**app.manifest, "spec": wrong}))
    refused = rekindle("submit", str(path))
    assert refused.returncode == 2
    assert "spec.driver.cores" in refused.stderr
    assert "Traceback" not in refused.stderr
