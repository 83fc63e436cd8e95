"""Rules of services and pools, as SkyPilot has them."""

import json
from collections.abc import Iterator

from kubectl_sky.errors import Problem
from kubectl_sky.spec.document import Data, Document, Path

_SCALING = (  # fields of a pool that mean something where the number of workers changes
    "min_workers",
    "queue_length_threshold",
    "upscale_delay_seconds",
    "downscale_delay_seconds",
)
_AWARE = "instance_aware_least_load"


def _exclusive(document: Document) -> Iterator[Problem]:
    pairs = (
        (("service",), ("pool",)),
        (("service", "replicas"), ("service", "replica_policy")),
        (("service", "replicas"), ("service", "workers")),
        (("service", "replicas"), ("service", "pool")),
    )
    for one, other in pairs:
        if document.get(*one) is not None and document.get(*other) is not None:
            message = f"excludes {one[-1]}"
            yield document.problem(other, message, "keep one of them", key=True)


def _probe(document: Document) -> Iterator[Problem]:
    probe = document.get("service", "readiness_probe")
    path: Path = ("service", "readiness_probe")
    if isinstance(probe, dict):
        yield from _post_data(document, probe.get("post_data"))
        path, probe = (*path, "path"), probe.get("path")
    if isinstance(probe, str) and not probe.startswith("/"):
        yield document.problem(path, "expected a path that begins with /")


def _post_data(document: Document, data: Data) -> Iterator[Problem]:
    if not isinstance(data, str):
        return
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        path = ("service", "readiness_probe", "post_data")
        yield document.problem(path, "expected JSON, or fields in place of text")


def _policy(document: Document) -> Iterator[Problem]:
    policy, path = document.get("service", "replica_policy"), ("service", "replica_policy")
    if not isinstance(policy, dict):
        return
    least, most = policy.get("min_replicas"), policy.get("max_replicas")
    qps = policy.get("target_qps_per_replica")
    if most is None:
        if qps is not None:
            message = "needs max_replicas beside it"
            yield document.problem((*path, "target_qps_per_replica"), message)
        return
    if not isinstance(least, int) or not isinstance(most, int):
        return
    if most < least:
        yield document.problem((*path, "max_replicas"), f"is less than min_replicas, {least}")
    elif most != least and qps is None:
        hint = "set it, or make both equal"
        message = "differs from min_replicas, which needs target_qps_per_replica"
        yield document.problem((*path, "max_replicas"), message, hint)


def _balancing(document: Document) -> Iterator[Problem]:
    qps = document.get("service", "replica_policy", "target_qps_per_replica")
    aware = document.get("service", "load_balancing_policy") == _AWARE
    if isinstance(qps, dict) and not aware:
        path: Path = ("service", "replica_policy", "target_qps_per_replica")
        yield document.problem(path, f"one number a GPU needs load_balancing_policy: {_AWARE}")
    if aware and not isinstance(qps, dict):
        path = ("service", "load_balancing_policy")
        message = "needs target_qps_per_replica with one number a GPU"
        yield document.problem(path, message, "such as {H100: 5}")


def _pools(document: Document) -> Iterator[Problem]:
    for path in (("pool",), ("service", "pool")):
        pool = document.get(*path)
        if isinstance(pool, dict):
            for message in _wrong_pool(pool, document.get("service", "workers")):
                yield document.problem(path, message)


def _wrong_pool(pool: dict[Data, Data], workers: Data) -> Iterator[str]:
    least, most = pool.get("min_workers"), pool.get("max_workers")
    if least is None and most is None and pool.get("workers") is None and workers is None:
        yield "expected workers, or min_workers and max_workers"
    for field in _SCALING:
        if pool.get(field) is not None and most is None:
            yield f"{field} needs max_workers"
    if isinstance(least, int) and isinstance(most, int) and least > most:
        yield f"max_workers {most} is less than min_workers {least}"


RULES = (_exclusive, _probe, _policy, _balancing, _pools)
