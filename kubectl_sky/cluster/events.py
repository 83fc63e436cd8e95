"""Write Events, which `kubectl describe` shows."""

from datetime import datetime

from kubectl_sky.cluster.session import Json
from kubectl_sky.words import age, names
from kubectl_sky.words.kinds import EVENT
from kubectl_sky.words.notice import Notice


def event(about: Json, kind: str, reason: str, message: Notice, now: datetime) -> Json:
    """Return an Event about an object: its apiVersion, kind and metadata.

    `kind` is Normal or Warning. The server chooses the name.
    """
    metadata = about["metadata"]
    time = age.timestamp(now)
    reference = {name: metadata[name] for name in ("name", "namespace", "uid") if name in metadata}

    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {
            "generateName": f"{metadata['name']}-",
            "namespace": metadata.get("namespace") or "default",
        },
        "involvedObject": {"apiVersion": about["apiVersion"], "kind": about["kind"], **reference},
        "type": kind,
        "reason": reason,
        "message": message[:1000],
        "source": {"component": names.MANAGER},
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    }
