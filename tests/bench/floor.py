"""The least that a list, a submit or a stop costs: its requests alone, from a bare loop.

`python -m tests.bench.floor list NAMESPACE` reads Jobs and pods in pages; `create FILE` posts the
objects of a YAML stream, and `delete NAMESPACE` deletes Jobs, 16 at a time.
"""

import json
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import urllib3
import yaml

from tests.cluster.target import selected

_CONNECTIONS = 16
_CONTINUE = re.compile(rb'"continue":"([^"]+)"')
_METADATA_BYTES = 1000  # at the begin of a page
_JOBS = "/apis/batch/v1/namespaces/{}/jobs"
_PATHS = {
    "Job": "/apis/batch/v1",
    "Service": "/api/v1",
    "ConfigMap": "/api/v1",
    "Secret": "/api/v1",
}


def connect() -> tuple[urllib3.PoolManager, str, dict[str, str]]:
    """Return a pool, the server and the headers of the kubeconfig's current context."""
    cluster, user = selected(yaml.safe_load(Path(os.environ["KUBECONFIG"]).read_text()))
    pool = urllib3.PoolManager(maxsize=_CONNECTIONS, cert_reqs="CERT_NONE")
    urllib3.disable_warnings()
    headers = {"Authorization": f"Bearer {user['token']}", "Accept-Encoding": "gzip"}
    return pool, cluster["server"], headers


def read(namespace: str) -> None:
    """Read all Jobs and all pods."""
    pool, server, headers = connect()

    def pages(path: str) -> None:
        token = ""
        while True:
            url = f"{server}{path}?limit=500&continue={token}"
            page = pool.request("GET", url, headers=headers).data
            found = _CONTINUE.search(page, 0, _METADATA_BYTES)
            if not found:
                return
            token = found[1].decode()

    with ThreadPoolExecutor(2) as threads:
        paths = (_JOBS.format(namespace), f"/api/v1/namespaces/{namespace}/pods")
        list(threads.map(pages, paths))


def create(file: str) -> None:
    """Post all objects of a file."""
    pool, server, headers = connect()
    items = list(yaml.load_all(Path(file).read_text(), Loader=yaml.CSafeLoader))

    def post(item: dict[str, object]) -> None:
        kind, metadata = str(item["kind"]), item["metadata"]
        assert isinstance(metadata, dict)
        url = f"{server}{_PATHS[kind]}/namespaces/{metadata['namespace']}/{kind.lower()}s"
        body = json.dumps(item)
        answer = pool.request(
            "POST", url, body=body, headers={**headers, "Content-Type": "application/json"}
        )
        assert answer.status == 201, answer.data

    with ThreadPoolExecutor(_CONNECTIONS) as threads:
        list(threads.map(post, items))


def delete(namespace: str) -> None:
    """Delete all Jobs; the garbage collector deletes their pods meanwhile, as after any stop."""
    pool, server, headers = connect()
    jobs = f"{server}{_JOBS.format(namespace)}"
    names = [
        item["metadata"]["name"]
        for item in pool.request("GET", jobs, headers=headers).json()["items"]
    ]

    def end(name: str) -> None:
        url = f"{jobs}/{name}?propagationPolicy=Background"
        answer = pool.request("DELETE", url, headers=headers)
        assert answer.status == 200, answer.data

    with ThreadPoolExecutor(_CONNECTIONS) as threads:
        list(threads.map(end, names))


if __name__ == "__main__":
    {"list": read, "create": create, "delete": delete}[sys.argv[1]](sys.argv[2])
