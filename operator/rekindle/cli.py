"""The command line: `rekindle run`, `explain`, `inspect` and `rerun` here; `submit` and its kin on a cluster."""

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import rekindle
from rekindle.api.manifest import ManifestError
from rekindle.api.quantities import parse_size
from rekindle.api.settings import SettingsError
from rekindle.local import chaos
from rekindle.local.inspect import StoredRun
from rekindle.local.rerun import request_rerun
from rekindle.local.restarts import INTERRUPTED, USAGE
from rekindle.local.run import RunOptions, explain_application, run_application
from rekindle.local.screen import PlainScreen, make_screen
from rekindle.local.supervisor import Outcome
from rekindle.remote.commands import add_commands
from rekindle.runtime.errors import RekindleError
from rekindle.runtime.store import Store

EXIT_CODES = """\
exit codes:
  0    finished
  1    the pipeline failed: user code raised, or a failure budget is used up
  2    usage: a bad command line, manifest or pipeline
  3    the environment: no Java, no cluster or one that refuses, a driver lost too often
  4    the store was refused: another application's, another version's, damaged, in use, full,
       or of a pipeline that has changed since
  130  stopped by Ctrl-C; the next run goes on from what is stored
"""

RUN_HELP = """\
Run a SparkApplication manifest on this machine: a private Spark cluster with a master
and one Worker for each node, each on an address of its own; then the driver, started
again when it is lost. Stored results lie in .rekindle/<name> beside the manifest, so a
run that was stopped goes on where it was. Nothing is left running.
"""

RUN_EXAMPLES = f"""\
examples:
  rekindle run app.yaml
  rekindle run app.yaml --nodes 4 --store /data/flights --report report.json
  rekindle run app.yaml --fresh            forget what is stored and begin anew
  rekindle run app.yaml --chaos slow-node:node=1,factor=0.1@stage=delays --chaos kill-driver@time=20

chaos:
  {chaos.USAGE}
{EXIT_CODES}"""

_PATIENCE = 10.0
"""Seconds that a person waits for a bucket's answer."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    options = make_parser().parse_args(arguments)
    try:
        return int(options.command(options))
    except (ManifestError, SettingsError, chaos.ChaosError) as error:
        print(f"rekindle: {error}", file=sys.stderr)
        return USAGE
    except RekindleError as error:
        print(f"rekindle: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("rekindle: stopped", file=sys.stderr)
        return INTERRUPTED


def make_parser() -> argparse.ArgumentParser:
    """The parser, with its help."""
    parser = argparse.ArgumentParser(
        prog="rekindle",
        description="Spark jobs that do not start over.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_run(commands)
    _add_explain(commands)
    _add_inspect(commands)
    _add_rerun(commands)
    add_commands(commands)
    about = commands.add_parser("version", help="versions of rekindle, PySpark and Python")
    about.set_defaults(command=_version)
    return parser


def _add_run(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    run = commands.add_parser(
        "run",
        help="run a SparkApplication manifest on this machine",
        description=RUN_HELP,
        epilog=RUN_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument("manifest", type=Path, metavar="APP.yaml", help="a SparkApplication manifest")
    run.add_argument("--nodes", type=_count, default=3, metavar="N", help="nodes of the cluster (default: 3)")
    run.add_argument("--store", metavar="PLACE", help="where results are stored: a folder, or s3://bucket/prefix")
    run.add_argument("--store-limit", type=_size, metavar="SIZE", help="most the store may take, such as 500m or 2g")
    run.add_argument("--fresh", action="store_true", help="forget what is stored before the run")
    run.add_argument("--hold-cores", type=_cores, metavar="X", help="hold every node to this much CPU, such as 0.6")
    run.add_argument(
        "--chaos",
        type=_fault,
        action="append",
        default=[],
        metavar="FAULT",
        help="do this to the run; see below",
    )
    run.add_argument("--report", type=Path, metavar="OUT.json", help="write a report of the run")
    run.set_defaults(command=_run)


def _add_explain(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    explain = commands.add_parser(
        "explain",
        help="tell how a pipeline would run: stages, exchanges, regions, what is speculated",
        epilog="examples:\n  rekindle explain app.yaml\n  rekindle explain app.yaml --mermaid > pipeline.mmd",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    explain.add_argument("manifest", type=Path, metavar="APP.yaml", help="a SparkApplication manifest")
    explain.add_argument("--mermaid", action="store_true", help="a Mermaid diagram instead of text")
    explain.set_defaults(command=_explain)


def _add_inspect(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    inspect = commands.add_parser(
        "inspect",
        help="tell what a store holds, and what happened in its runs",
        description="Stages, sinks and the story of a run, from its store alone; nothing is changed.",
        epilog="examples:\n  rekindle inspect .rekindle/shop\n  rekindle inspect .rekindle/shop --files spending",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    inspect.add_argument("store", metavar="STORE", help="the store's folder, or s3://bucket/prefix")
    inspect.add_argument("--run", type=int, metavar="N", help="this run of it (default: the newest)")
    inspect.add_argument("--files", metavar="STAGE", help="the stored partitions of a stage instead")
    inspect.set_defaults(command=_inspect)


def _add_rerun(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    rerun = commands.add_parser(
        "rerun",
        help="have a stage of an unfinished run made again, and what was made from it",
        description="For a run that failed or was stopped: the next `rekindle run` makes this stage again\n"
        "although its result is stored, and all stages that read it. The others keep what they have stored.",
        epilog="examples:\n  rekindle rerun .rekindle/shop spending\n  rekindle run app.yaml",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    rerun.add_argument("store", metavar="STORE", help="the store's folder, or s3://bucket/prefix")
    rerun.add_argument("stage", metavar="STAGE", help="see `rekindle inspect STORE`")
    rerun.set_defaults(command=_rerun)


def _run(options: argparse.Namespace) -> int:
    names = ("manifest", "nodes", "store", "store_limit", "hold_cores", "fresh", "report")
    wanted = {name: getattr(options, name) for name in names}
    with make_screen() as screen:
        outcome = run_application(RunOptions(**wanted, chaos=tuple(options.chaos)), screen)
    return _tell(outcome)


def _explain(options: argparse.Namespace) -> int:
    return _tell(explain_application(options.manifest, "mermaid" if options.mermaid else "true", PlainScreen()))


def _inspect(options: argparse.Namespace) -> int:
    run = StoredRun.find(Store.at(options.store, patience=_PATIENCE), options.run)
    print(run.files(options.files) if options.files else run.overview())
    return 0


def _rerun(options: argparse.Namespace) -> int:
    store = Store.at(options.store, patience=_PATIENCE)
    print(request_rerun(store, options.stage, lambda text: print(f"rekindle: {text}", file=sys.stderr)))
    return 0


def _tell(outcome: Outcome) -> int:
    if outcome.message:
        print(f"rekindle: {outcome.message}", file=sys.stderr)
    return outcome.code


def _version(options: argparse.Namespace) -> int:
    try:
        spark = version("pyspark")
    except PackageNotFoundError:
        spark = "not installed"
    print(f"rekindle {rekindle.__version__}, PySpark {spark}, Python {sys.version.split()[0]}")
    return 0


def _fault(text: str) -> chaos.Fault:
    try:
        return chaos.parse_fault(text)
    except chaos.ChaosError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _count(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 250:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of nodes from 1 to 250")
    return int(text)


def _cores(text: str) -> float:
    try:
        cores = float(text)
    except ValueError:
        cores = 0.0
    if not 0 < cores < 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of cores; write such as 0.6")
    return cores


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


if __name__ == "__main__":
    sys.exit(main())
