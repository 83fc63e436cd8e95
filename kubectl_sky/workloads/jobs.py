"""The default backend: one Job per node."""

from collections.abc import Iterable, Mapping
from typing import Any

from kubectl_sky import kinds

KIND = kinds.JOB
TEMPLATE = "job.yaml.j2"


def condition(job: Mapping[str, Any], *types: str) -> Mapping[str, Any] | None:
    """Return the first true condition of these types; position means nothing."""
    for found in job.get("status", {}).get("conditions", ()):
        if found.get("type") in types and found.get("status") == "True":
            return dict(found)
    return None


def finished(job: Mapping[str, Any]) -> bool:
    """Say whether the Job will run no more."""
    return condition(job, "Complete", "Failed") is not None


def ended(jobs: Iterable[Mapping[str, Any]]) -> bool:
    """Say whether a task is over: all its Jobs have finished."""
    return all(finished(job) for job in jobs)
