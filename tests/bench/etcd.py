"""What etcd keeps of a namespace, asked of etcd itself: of clusters of this machine only."""

import base64
import json
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import yaml

_KINDS = ("jobs", "pods", "configmaps", "secrets", "services/specs", "endpointslices", "events")


def kilobytes(kubeconfig: Path, namespace: str) -> float:
    """Return the size of the keys and values of the namespace's objects, without their history."""
    (cluster, *_) = yaml.safe_load(kubeconfig.read_text())["clusters"]
    port = urlsplit(cluster["cluster"]["server"]).port
    assert port
    url = f"http://127.0.0.1:{port + 1}/v3/kv/range"  # tests/cluster/place.py chooses the port
    return sum(_size(url, f"/registry/{kind}/{namespace}/") for kind in _KINDS) / 1000


def _size(url: str, prefix: str) -> int:
    end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    query = {"key": _encoded(prefix), "range_end": _encoded(end)}
    with urllib.request.urlopen(url, json.dumps(query).encode()) as answer:
        pairs = json.loads(answer.read()).get("kvs", ())
    texts = (text for pair in pairs for text in (pair["key"], pair["value"]))
    return sum(len(base64.b64decode(text)) for text in texts)


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
