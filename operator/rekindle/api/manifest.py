"""Reading a manifest; everything that can be wrong with it fits on one screen."""

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from rekindle.api.model import nearest, problems
from rekindle.api.settings import SettingsError
from rekindle.api.spark_application import SparkApplication

_MOST_LINES = 12


class ManifestError(ValueError):
    """A manifest that cannot be used. The message names the file, the line, the field and the remedy."""


class _Loader(yaml.SafeLoader):
    """YAML's plain values only, and no key twice: PyYAML would silently keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key.value!r} is there twice", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def load_manifest(path: Path) -> SparkApplication:
    """The application of a YAML file. Raises ManifestError."""
    text = _read(path)
    node, document = _parse(path, text)
    try:
        application = SparkApplication.model_validate(document, by_alias=True, by_name=False)
        application.spec.settings()
    except ValidationError as error:
        found = [(_line_of(node, p.where), str(p)) for p in problems(error, SparkApplication)]
        lines = [f"{path}:{line}: {text}" for line, text in sorted(found)]
    except SettingsError as error:
        lines = [f"{path}: spec.sparkConf: {line}" for line in str(error).splitlines()]
    else:
        return application
    more = len(lines) - _MOST_LINES
    raise ManifestError("\n".join(lines[:_MOST_LINES] + ([f"... and {more} more"] if more > 0 else [])))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        siblings = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        near = nearest(path.name, siblings)
        hint = f"; did you mean {path.parent / near}?" if near else ""
        raise ManifestError(f"{path}: no such file{hint}") from None
    except IsADirectoryError:
        raise ManifestError(f"{path}: a folder; name the manifest in it") from None
    except UnicodeDecodeError:
        raise ManifestError(f"{path}: not a text in UTF-8, so not a YAML manifest") from None
    except OSError as error:
        raise ManifestError(f"{path}: cannot be read: {error.strerror}") from None


def _parse(path: Path, text: str) -> tuple[yaml.Node, dict[str, Any]]:
    """The document both as nodes, which know their lines, and as values."""
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        document = loader.construct_document(node) if node is not None else None
    except yaml.MarkedYAMLError as error:
        raise ManifestError(_syntax(path, text, error)) from None
    except yaml.YAMLError as error:
        raise ManifestError(f"{path}: not YAML: {error}") from None
    finally:
        loader.dispose()
    if node is None:
        raise ManifestError(f"{path}: empty; a manifest has apiVersion, kind, metadata and spec")
    if not isinstance(document, dict):
        raise ManifestError(f"{path}: not a mapping; a manifest has apiVersion, kind, metadata and spec")
    return node, document


def _syntax(path: Path, text: str, error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    what = error.problem or error.context or "not YAML"
    if what.startswith("but found another document"):
        what = "a second document begins; keep one application in a file"
    if mark is None:
        return f"{path}: {what}"
    lines = text.splitlines()
    shown = lines[mark.line] if mark.line < len(lines) else ""
    return f"{path}:{mark.line + 1}: {what}\n    {shown}\n    {' ' * mark.column}^"


def _line_of(node: yaml.Node, where: tuple[int | str, ...]) -> int:
    """The line, from 1, of the last step of a path that is there."""
    line = node.start_mark.line
    for step in where:
        found = None
        if isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == step), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            found = (node.value[step], node.value[step])
        if found is None:
            break
        line, node = found[0].start_mark.line, found[1]
    return int(line) + 1
