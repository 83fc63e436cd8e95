"""Events: what happened to an object, for `kubectl describe`."""

import time

from kubectl_sky.practice.api import Api, now
from kubectl_sky.practice.problems import Problem
from kubectl_sky.practice.state import Json

_REMEMBERED = 10_000  # events that count when they happen again


def _again(event: Json) -> None:
    event["count"] += 1
    event["lastTimestamp"] = now()


def record(
    api: Api, obj: Json, reason: str, message: str, source: str, kind: str = "Normal"
) -> None:
    """Say that something happened to an object; the same again only counts."""
    metadata = obj["metadata"]
    about = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": metadata["name"]}
    about |= {key: metadata[key] for key in ("namespace", "uid") if metadata.get(key)}
    namespace = metadata.get("namespace") or "default"
    told = (metadata.get("uid", ""), reason, message)
    if api.change("events", (namespace, api.told.get(told, "")), _again):
        return
    name = f"{metadata['name']}.{time.time_ns():x}"  # sorts by time
    if len(api.told) >= _REMEMBERED:
        api.told.clear()
    api.told[told] = name
    body = {
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": about,
        "reason": reason,
        "message": message,
        "type": kind,
        "source": {"component": source},
        "count": 1,
        "firstTimestamp": now(),
        "lastTimestamp": now(),
        "reportingComponent": source,
        "reportingInstance": "",
    }
    try:
        api.create("events", body, namespace)
    except Problem as problem:
        if problem.code not in (403, 404):  # its namespace is going
            raise
