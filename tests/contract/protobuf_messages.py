"""Makes messages.json.gz of the practice cluster: the fields of the protobuf messages of objects.

`python -m tests.contract.protobuf_messages` reads the generated.proto files of the Go modules
that the cluster of the tests is built from.
"""

import gzip
import json
import re
from pathlib import Path

import kubectl_sky_practice
from tests.cluster import machine

FILE = Path(kubectl_sky_practice.__file__).with_name("messages.json.gz")
_META = "k8s.io.apimachinery.pkg.apis.meta.v1"
_ROOTS = {
    "api/core/v1": "Namespace Node Pod ConfigMap Secret Service ServiceAccount Event"
    " PersistentVolumeClaim ResourceQuota LimitRange",
    "api/apps/v1": "Deployment ReplicaSet",
    "api/autoscaling/v2": "HorizontalPodAutoscaler",
    "api/batch/v1": "Job",
    "api/networking/v1": "Ingress NetworkPolicy",
    "api/rbac/v1": "Role RoleBinding ClusterRole ClusterRoleBinding",
    "api/storage/v1": "StorageClass",
    "api/scheduling/v1": "PriorityClass",
    "api/authentication/v1": "SelfSubjectReview TokenRequest",
    "api/authorization/v1": "SelfSubjectAccessReview",
}
_FOLDERS = (
    *_ROOTS,
    "apimachinery/pkg/apis/meta/v1",
    "apimachinery/pkg/api/resource",
    "apimachinery/pkg/runtime",
    "apimachinery/pkg/util/intstr",
)
_FIELD = re.compile(r"^  (?:(optional|repeated) )?(map<(?:\w+), ([\w.]+)>|[\w.]+) (\w+) = (\d+);$")
_PLAIN = {"string", "bytes", "bool", "int32", "int64", "double"}

Fields = dict[str, list[str]]


def _read(name: str) -> dict[str, Fields]:
    package = "k8s.io." + name.replace("/", ".")
    module, _, below = name.partition("/")
    extracted: dict[str, Fields] = {}
    fields: Fields = {}
    proto = machine.sources(f"k8s.io/{module}") / below / "generated.proto"

    for line in proto.read_text().splitlines():
        if line.startswith("message "):
            fields = extracted[f"{package}.{line.split()[1]}"] = {}
        match = _FIELD.match(line)
        if match:
            label, written, value, field, number = match.groups()
            kind = value or written
            if kind not in _PLAIN:
                kind = kind.removeprefix(".") if kind.startswith(".") else f"{package}.{kind}"
            shape = "list" if label == "repeated" else "one"
            if value:
                shape = "map"
            fields[number] = [field, shape, kind]

    return extracted


def extract() -> dict[str, Fields]:
    """Return the messages that the built-in kinds need: number to name, shape and type."""
    known: dict[str, Fields] = {}
    for name in _FOLDERS:
        known |= _read(name)
    todo = [
        f"k8s.io.{place.replace('/', '.')}.{kind}"
        for place, kinds in _ROOTS.items()
        for kind in kinds.split()
    ] + [f"{_META}.DeleteOptions"]
    wanted: dict[str, Fields] = {}

    while todo:
        name = todo.pop()
        if name not in wanted and name not in _PLAIN:
            wanted[name] = known[name]
            todo += [kind for _, _, kind in known[name].values()]

    return wanted


def write(messages: dict[str, Fields], file: Path = FILE) -> None:
    """Write them so that the same messages give the same file."""
    text = json.dumps(messages, sort_keys=True, separators=(",", ":"))
    file.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    write(extract())
