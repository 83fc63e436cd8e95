"""The schemas of the practice cluster, as a real one gives them.

`python -m tests.contract.practice_schemas` writes them anew, from the cluster that the tests would
use.
"""

import gzip
import json
import os
from collections.abc import Iterable
from typing import Any

from kubectl_sky.cluster.session import Connection, Session
from kubectl_sky_practice import schemas
from kubectl_sky_practice.resources import BUILT_IN
from tests.cluster import drivers
from tests.cluster.cache import say
from tests.cluster.hold import Holder

Json = dict[str, Any]

_REF = "#/components/schemas/"
_PATHS = (
    "api/v1",
    "apis/apiextensions.k8s.io/v1",
    "apis/apps/v1",
    "apis/authentication.k8s.io/v1",
    "apis/authorization.k8s.io/v1",
    "apis/autoscaling/v2",
    "apis/batch/v1",
    "apis/coordination.k8s.io/v1",
    "apis/networking.k8s.io/v1",
    "apis/rbac.authorization.k8s.io/v1",
    "apis/scheduling.k8s.io/v1",
    "apis/storage.k8s.io/v1",
)
# What is asked of the server and never stored, and what it answers.
_MORE = {
    ("authentication.k8s.io", "v1", "SelfSubjectReview"),
    ("authentication.k8s.io", "v1", "TokenRequest"),
    ("authorization.k8s.io", "v1", "SelfSubjectAccessReview"),
    ("", "v1", "DeleteOptions"),
    ("", "v1", "Status"),
}


def of_server(session: Session) -> Json:
    """Return the schemas of the kinds that the practice cluster serves, and all that they need."""
    known: Json = {}
    for path in _PATHS:
        answer = session.send("GET", f"/openapi/v3/{path}").body
        known = answer["components"]["schemas"] | known
    wanted = {(resource.group, resource.version, resource.kind) for resource in BUILT_IN} | _MORE
    todo = [name for name, schema in known.items() if wanted & set(_kinds(schema))]
    collected: Json = {}
    while todo:
        name = todo.pop()
        if name not in collected:
            collected[name] = known[name]
            todo += _references(known[name])
    return collected


def _kinds(schema: Json) -> Iterable[tuple[str, str, str]]:
    for kind in schema.get("x-kubernetes-group-version-kind", ()):
        yield kind["group"], kind["version"], kind["kind"]


def _references(node: object) -> Iterable[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref" and isinstance(value, str):
                yield value.removeprefix(_REF)
            else:
                yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


def write(collected: Json) -> None:
    """Keep them, in the same bytes each time."""
    text = json.dumps(collected, sort_keys=True, separators=(",", ":"))
    schemas.FILE.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def _main() -> None:
    drivers.prepare()
    holder = Holder.start(os.environ)
    try:
        session = Session.connect(Connection(kubeconfig=str(holder.cluster().kubeconfig)))
        write(of_server(session))
        say(f"written: {schemas.FILE}")
    finally:
        holder.stop()


if __name__ == "__main__":
    _main()
