"""Rules for services and pools, as in SkyPilot."""

import json
from collections.abc import Iterator

from kubectl_sky.errors import Problem
from kubectl_sky.spec.document import Data, Document, Path

_SCALING = (  # fields of a pool that only apply if it scales
    "min_workers",
    "queue_length_threshold",
    "upscale_delay_seconds",
    "downscale_delay_seconds",
)
_PER_GPU = "instance_aware_least_load"


def _exclusive(document: Document) -> Iterator[Problem]:
    pairs = (
        (("service",), ("pool",)),
        (("service", "replicas"), ("service", "replica_policy")),
        (("service", "replicas"), ("service", "workers")),
        (("service", "replicas"), ("service", "pool")),
    )
    for first, second in pairs:
        if document.get(*first) is not None and document.get(*second) is not None:
            message = f"excludes {first[-1]}"
            yield document.problem(second, message, "keep one of them", key=True)


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
    min_replicas, max_replicas = policy.get("min_replicas"), policy.get("max_replicas")
    qps = policy.get("target_qps_per_replica")
    if max_replicas is None:
        if qps is not None:
            message = "requires max_replicas"
            yield document.problem((*path, "target_qps_per_replica"), message)
        return
    if not isinstance(min_replicas, int) or not isinstance(max_replicas, int):
        return
    if max_replicas < min_replicas:
        yield document.problem(
            (*path, "max_replicas"), f"is less than min_replicas, {min_replicas}"
        )
    elif max_replicas != min_replicas and qps is None:
        hint = "set it, or make both equal"
        message = "differs from min_replicas, which needs target_qps_per_replica"
        yield document.problem((*path, "max_replicas"), message, hint)


def _balancing(document: Document) -> Iterator[Problem]:
    qps = document.get("service", "replica_policy", "target_qps_per_replica")
    is_instance_aware = document.get("service", "load_balancing_policy") == _PER_GPU
    if isinstance(qps, dict) and not is_instance_aware:
        path: Path = ("service", "replica_policy", "target_qps_per_replica")
        yield document.problem(path, f"one number a GPU needs load_balancing_policy: {_PER_GPU}")
    if is_instance_aware and not isinstance(qps, dict):
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
    min_workers, max_workers = pool.get("min_workers"), pool.get("max_workers")
    if (
        min_workers is None
        and max_workers is None
        and pool.get("workers") is None
        and workers is None
    ):
        yield "expected workers, or min_workers and max_workers"
    for field in _SCALING:
        if pool.get(field) is not None and max_workers is None:
            yield f"{field} needs max_workers"
    if isinstance(min_workers, int) and isinstance(max_workers, int) and min_workers > max_workers:
        yield f"max_workers {max_workers} is less than min_workers {min_workers}"


RULES = (_exclusive, _probe, _policy, _balancing, _pools)
