"""Whether a driver that ended is started again: a pure decision."""

from dataclasses import dataclass

from rekindle.api.restart_policy import RestartPolicy

_UNSET = RestartPolicy(type="OnInfrastructureFailure", on_failure_retries=3)

SUCCESS, FAILED, USAGE, ENVIRONMENT, STORE_REFUSED, INTERRUPTED = 0, 1, 2, 3, 4, 130

# SIGKILL and SIGTERM, as Popen, as a shell and as a JVM tell of a child that they ended.
_KILLED = {-9, 137, -15, 143}


@dataclass(frozen=True, slots=True)
class Restart:
    """Start it again after `delay` seconds."""

    delay: float
    reason: str


@dataclass(frozen=True, slots=True)
class Ended:
    """It is over. `code` is `rekindle run`'s exit code."""

    code: int
    reason: str


def decide(policy: RestartPolicy | None, exit_code: int, restarts: int) -> Restart | Ended:
    """What follows a driver's end with `exit_code` (negative: a signal) after so many restarts.

    Infrastructure failures are a killed driver and a broken environment; a pipeline that failed would fail
    again, and is started again only with `Always`. A refused store or a bad pipeline never is. Unset policy:
    three restarts at once after infrastructure failures.
    """
    chosen = policy or _UNSET
    if exit_code == SUCCESS:
        return Ended(SUCCESS, "finished")
    infrastructure = exit_code in _KILLED or exit_code == ENVIRONMENT
    what = describe(exit_code)
    code = exit_code if exit_code in (USAGE, ENVIRONMENT, STORE_REFUSED) else FAILED
    if infrastructure:
        code = ENVIRONMENT
    if chosen.type == "Never" or code in (USAGE, STORE_REFUSED):
        return Ended(code, what)
    if not infrastructure and chosen.type != "Always":
        return Ended(code, what)
    if restarts >= chosen.on_failure_retries:
        return Ended(code, f"{what}, and all {chosen.on_failure_retries} restarts are used up")
    delay = 0.0 if policy is None else float(chosen.on_failure_retry_interval * (restarts + 1))
    return Restart(delay, what)


def describe(exit_code: int) -> str:
    """An exit code in words."""
    if exit_code in _KILLED:
        return f"the driver was killed ({'SIGKILL' if exit_code in (-9, 137) else 'SIGTERM'})"
    if exit_code < 0:
        return f"the driver died of signal {-exit_code}"
    return f"the driver ended with exit code {exit_code}"
