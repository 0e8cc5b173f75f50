"""Reading manifests: what is taken, and errors that fit a screen and name line, field and remedy."""

from pathlib import Path

import pytest

from rekindle.api.manifest import ManifestError, load_manifest

GOOD = """\
apiVersion: rekindle.dev/v1beta2
kind: SparkApplication
metadata:
  name: flights
spec:
  type: Python
  sparkVersion: "4.0.0"
  mainApplicationFile: flights.py
"""


def load(tmp_path: Path, text: str):
    path = tmp_path / "app.yaml"
    path.write_text(text)
    return load_manifest(path)


def error(tmp_path: Path, text: str) -> str:
    with pytest.raises(ManifestError) as caught:
        load(tmp_path, text)
    assert len(str(caught.value).splitlines()) <= 24
    return str(caught.value).replace(f"{tmp_path}/", "")


def with_spec(lines: str) -> str:
    return GOOD + "".join(f"  {line}\n" for line in lines.splitlines())


def test_the_smallest_manifest_has_kubeflow_s_defaults(tmp_path):
    spec = load(tmp_path, GOOD).spec
    assert (spec.executor.cores, spec.executor.memory, spec.executor.instances) == (1, "1g", None)
    assert (spec.driver.cores, spec.mode, spec.workload, spec.restart_policy) == (1, "cluster", "Batch", None)


def test_kubeflow_s_own_api_group_is_taken(tmp_path):
    text = GOOD.replace("rekindle.dev", "sparkoperator.k8s.io")
    assert load(tmp_path, text).api_version == "sparkoperator.k8s.io/v1beta2"


def test_the_blocks_are_settings_and_spark_conf_wins_over_them(tmp_path):
    text = with_spec(
        "speculation: {enabled: true, checkInterval: 2s}\n"
        "recovery: {maxFailuresPerTask: 7}\n"
        'sparkConf: {spark.rekindle.speculation.checkInterval: "3s", spark.app.name: x}'
    )
    settings = load(tmp_path, text).spec.settings()
    assert settings.speculation.enabled
    assert settings.speculation.check_interval == 3.0
    assert settings.recovery.max_failures_per_task == 7


def test_fields_without_a_meaning_on_one_machine_are_named(tmp_path):
    text = with_spec(
        "image: spark:4\n"
        "executor:\n"
        "  cores: 2\n"
        "  tolerations: []\n"
        "  env: [{name: A, value: b}, {name: B, valueFrom: {secretKeyRef: {name: s, key: k}}}]\n"
        "sparkUIOptions: {servicePort: 4040}"
    )
    assert set(load(tmp_path, text).meaningless_locally()) == {
        "spec.image",
        "spec.executor.tolerations",
        "spec.executor.env[1].valueFrom",
        "spec.sparkUIOptions",
    }


def test_env_wins_over_the_deprecated_env_vars(tmp_path):
    text = with_spec("driver:\n  envVars: {A: old, B: old}\n  env: [{name: A, value: new}]")
    assert load(tmp_path, text).spec.driver.environment() == {"A": "new", "B": "old"}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("sparkConfs: {}", "app.yaml:9: spec.sparkConfs: unknown field; did you mean sparkConf?"),
        ("spark_conf: {}", "app.yaml:9: spec.spark_conf: unknown field; did you mean sparkConf?"),
        ("xyzzy: 1", "app.yaml:9: spec.xyzzy: unknown field; known here: arguments, "),
        ("executor: {core: 1}", "app.yaml:9: spec.executor.core: unknown field; did you mean cores?"),
        ("executor: {cores: two}", "spec.executor.cores: expected a whole number, got 'two'"),
        ("executor: {cores: 0}", "spec.executor.cores: input should be greater than or equal to 1, got 0"),
        ("executor: {memory: lots}", "spec.executor.memory: 'lots' is not a size"),
        ("executor: [1]", "spec.executor: expected a mapping, got a list"),
        ("executor:", "spec.executor: expected a mapping, got nothing"),
        ("arguments: [1]", "spec.arguments[0]: expected a text, got 1; put it in quotes"),
        ("arguments: x", "spec.arguments: expected a list, got 'x'"),
        ("sparkConf: {spark.x: true}", "spec.sparkConf.spark.x: expected a text, got true; put it in quotes"),
        ("workload: Stream", "spec.workload: expected one of 'Batch' or 'Streaming', got 'Stream'"),
        ("speculation: {enabled: maybe}", "spec.speculation.enabled: expected true or false, got 'maybe'"),
        ("recovery: {leaseSeconds: .inf}", "spec.recovery.leaseSeconds: input should be a finite number"),
        (
            "sparkConf: {spark.rekindle.speculation.on: 'x'}",
            "spec.sparkConf: spark.rekindle.speculation.on: ",
        ),
        ("deps: {pyfiles: []}", "spec.deps.pyfiles: unknown field; did you mean pyFiles?"),
        ("restartPolicy: {type: Sometimes}", "spec.restartPolicy.type: expected one of 'Never', "),
    ],
)
def test_a_wrong_field_is_named_with_its_line_and_the_remedy(tmp_path, line, says):
    assert says in error(tmp_path, with_spec(line))


def test_a_required_field_that_is_missing_is_named(tmp_path):
    text = GOOD.replace("  mainApplicationFile: flights.py\n", "")
    assert error(tmp_path, text) == "app.yaml:5: spec.mainApplicationFile: required, but not there"


@pytest.mark.parametrize("name", ["Flights", "1flights", "a_b", "a" * 64, "../x", "x-"])
def test_a_name_is_a_dns_label(tmp_path, name):
    text = GOOD.replace("name: flights", f"name: {name}")
    assert "metadata.name" in error(tmp_path, text)
    assert "is no name; write at most 63 of a-z, 0-9 and -" in error(tmp_path, text)


@pytest.mark.requirement("S2-5", "S2-9", "S7-15")
def test_a_streaming_application_with_speculation_is_refused(tmp_path):
    says = error(tmp_path, with_spec("workload: Streaming\nspeculation: {enabled: true}"))
    assert "speculation.enabled is true and workload is Streaming" in says
    assert "set speculation.enabled to false or workload to Batch" in says


def test_many_errors_still_fit_a_screen(tmp_path):
    says = error(tmp_path, with_spec("\n".join(f"wrong{i}: 1" for i in range(40))))
    assert says.splitlines()[-1] == "... and 28 more"


def test_yaml_syntax_is_shown_with_its_line(tmp_path):
    says = error(tmp_path, "a: 1\nb: c: d\n")
    assert says == "app.yaml:2: mapping values are not allowed here\n    b: c: d\n        ^"


def test_a_key_twice_is_an_error_and_not_the_last_value(tmp_path):
    assert "app.yaml:9: the key 'type' is there twice" in error(tmp_path, with_spec("type: Python"))


def test_two_documents_are_refused(tmp_path):
    assert "a second document begins; keep one application in a file" in error(tmp_path, f"{GOOD}---\na: 1\n")


@pytest.mark.parametrize(("text", "says"), [("", "empty"), ("# nothing\n", "empty"), ("[1]", "not a mapping")])
def test_what_is_no_manifest_is_told_what_one_has(tmp_path, text, says):
    assert error(tmp_path, text) == f"app.yaml: {says}; a manifest has apiVersion, kind, metadata and spec"


def test_code_in_yaml_is_not_run(tmp_path):
    assert "could not determine a constructor" in error(tmp_path, "a: !!python/object/apply:os.getcwd []\n")


def test_a_missing_file_names_the_nearest(tmp_path):
    (tmp_path / "app.yaml").write_text(GOOD)
    with pytest.raises(ManifestError, match=r"ap\.yaml: no such file; did you mean .*app\.yaml\?"):
        load_manifest(tmp_path / "ap.yaml")
    with pytest.raises(ManifestError, match=r"x\.yaml: no such file$"):
        load_manifest(tmp_path / "none" / "x.yaml")


def test_a_folder_and_bytes_are_refused(tmp_path):
    with pytest.raises(ManifestError, match="a folder; name the manifest in it"):
        load_manifest(tmp_path)
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ManifestError, match="not a text in UTF-8"):
        load_manifest(tmp_path / "b.yaml")


def test_a_manifest_without_leave_to_read_is_refused(tmp_path, monkeypatch):
    def deny(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", deny)
    with pytest.raises(ManifestError, match=r"app\.yaml: cannot be read: Permission denied"):
        load_manifest(tmp_path / "app.yaml")
