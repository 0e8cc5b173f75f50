"""Mutation testing of the core: how many small defects, put in on purpose, the tests notice.

    python -m tests.tools.mutants                              all of rekindle.core, from the beginning
    python -m tests.tools.mutants 'rekindle.core.regions.*'    these mutants (again), the others as they were

mutmut makes the mutants and runs the tests on each; [tool.mutmut] in pyproject.toml says which. It must find the
source root under the name `src`, so it works in .build/mutants, which is made of links. The last lines are the
mutants that nobody noticed and a table; `mutmut show NAME` in that folder prints what such a mutant changes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.tools.tiers import BUILD, ROOT

FOLDER = BUILD / "mutants"
LINKS = {"src": "operator", **{name: name for name in ("tests", "benchmarks", "docs", "pyproject.toml")}}
RESULT = re.compile(r"^\s+rekindle\.core\.(?P<module>\w+)\.(?P<mutant>\S+): (?P<status>[\w ]+)$", re.MULTILINE)
COLUMNS = ("killed", "timeout", "survived", "no tests", "not checked")
NOTICED = ("killed", "timeout")
"""A mutant that runs for ever is noticed too."""


def lay_out(folder: Path) -> None:
    """The folder that mutmut works in."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, target in LINKS.items():
        link = folder / name
        if not link.is_symlink():
            link.symlink_to(os.path.relpath(ROOT / target, folder))
    (folder / "mutants" / "docs").mkdir(parents=True, exist_ok=True)  # mutmut copies a file only into a folder


def count(results: str) -> dict[str, Counter[str]]:
    """[module -> status -> mutants], from what `mutmut results` prints."""
    by_module: dict[str, Counter[str]] = {}
    for found in RESULT.finditer(results):
        by_module.setdefault(found["module"], Counter())[found["status"]] += 1
    return by_module


def score(counts: Counter[str]) -> str:
    """The share of the mutants that were run which the tests noticed."""
    run = counts.total() - counts["not checked"]
    return f"{sum(counts[status] for status in NOTICED) / run:.0%}" if run else "-"


def table(by_module: dict[str, Counter[str]]) -> Iterable[str]:
    """In Markdown, as docs/mutation.md has it."""
    yield f"| module | {' | '.join(COLUMNS)} | noticed |"
    yield f"|---|{'---:|' * (len(COLUMNS) + 1)}"
    rows = [*sorted(by_module.items()), ("all", sum(by_module.values(), Counter()))]
    for module, counts in rows:
        yield f"| {module} | {' | '.join(str(counts[status]) for status in COLUMNS)} | {score(counts)} |"


def main(mutants: Sequence[str]) -> int:
    os.chdir(ROOT)
    mutmut = str(Path(sys.executable).with_name("mutmut"))
    if not Path(mutmut).exists():
        print("mutmut is not installed: pip install -e '.[mutation]', or `make mutants`, which does so")
        return 2
    if not mutants:
        shutil.rmtree(FOLDER, ignore_errors=True)
    lay_out(FOLDER)
    code = subprocess.run([mutmut, "run", *mutants], cwd=FOLDER).returncode
    results = subprocess.run([mutmut, "results", "--all", "true"], cwd=FOLDER, capture_output=True, text=True).stdout
    print(*(found[0] for found in RESULT.finditer(results) if found["status"] in ("survived", "no tests")), sep="\n")
    print(*table(count(results)), sep="\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
