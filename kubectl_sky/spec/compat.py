"""Find what is valid here but not in SkyPilot 0.14, which is stricter.

The tables have only known differences. `validate` reports what both refuse.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction

from msgspec import Struct

from kubectl_sky.errors import Problem
from kubectl_sky.spec.document import Data, Document, Path
from kubectl_sky.spec.substitute import FIELDS as SUBSTITUTED
from kubectl_sky.spec.variables import REGISTRY, revealed
from kubectl_sky.words import names

_UNITS = {
    f"{letter}{end}": 1024**power for power, letter in enumerate("kmgtp", 1) for end in ("b", "i")
}
_WHOLE = re.compile(r"([0-9]+)([kmgtp][bi]|[KMGTP][BI]|[KMGTP][bi])?")
_GPU_MEMORY = re.compile(r"[0-9]+[GMT]B\+?", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{?\b([a-zA-Z_][a-zA-Z0-9_]*)\b\}?")
_TIME = re.compile(r"[0-9]+[mhdwMHDW]?")


def takes_cpus(value: Data) -> bool:
    """Accept a number, optionally with `+`."""
    return _positive(str(value).removesuffix("+"))


def takes_memory(value: Data) -> bool:
    """Accept a number of GB or one with a two-letter unit, optionally with `+` or `x`."""
    text = str(value).removesuffix("+")
    if text.endswith("x"):
        return not str(value).endswith("+") and _positive(text.removesuffix("x"))
    return _positive(text) or (text[-2:].lower() in _UNITS and _positive(text[:-2]))


def takes_disk(value: Data) -> bool:
    """Accept a whole number of GB, also in another unit."""
    if isinstance(value, int):
        return value > 0
    match = _WHOLE.fullmatch(str(value))
    if not match:
        return False
    size = Fraction(int(match[1]) * _UNITS.get((match[2] or "gb").lower(), 0), 1024**3)
    return size > 0 and size.denominator == 1


def takes_volume_size(value: Data) -> bool:
    """Accept one gibibyte or more."""
    match = _WHOLE.fullmatch(str(value))
    return match is not None and int(match[1]) * _UNITS[(match[2] or "gb").lower()] >= 1024**3


def takes_dropped_disk(value: Data) -> bool:
    """Accept any size in a field that SkyPilot ignores: only its form is checked."""
    return isinstance(value, int) or bool(_WHOLE.fullmatch(str(value)))


def takes_accelerators(value: Data) -> bool:
    """Accept text, a map to counts or null, or a list of texts."""
    if isinstance(value, dict):
        return all(map(_gpu_entry, value.items()))
    items = value if isinstance(value, list) else [value]
    return all(isinstance(item, str) and _gpu(item) for item in items)


def takes_candidate_accelerators(value: Data) -> bool:
    """Accept one accelerator only, as within any_of and ordered."""
    if isinstance(value, dict):
        return len(value) < 2 and None not in value.values() and takes_accelerators(value)
    return isinstance(value, str) and takes_accelerators(value)


def takes_labels(value: Data) -> bool:
    """Accept text as values only."""
    return not isinstance(value, dict) or all(isinstance(text, str) for text in value.values())


def takes_cloud(value: Data) -> bool:
    """Reject `k8s`: SkyPilot accepts only `kubernetes` here."""
    return str(value).lower() != "k8s"


def takes_autostop(value: Data) -> bool:
    """Reject seconds: the smallest unit is the minute."""
    return not isinstance(value, str) or bool(_TIME.fullmatch(value))


def _gpu_entry(entry: tuple[Data, Data]) -> bool:
    name, count = entry
    if count is None:
        return _gpu(str(name))
    return (
        isinstance(count, int | float) and not isinstance(count, bool) and _gpu(f"{name}:{count}")
    )


def _gpu(text: str) -> bool:
    parts = text.split(":")
    is_memory = [bool(_GPU_MEMORY.fullmatch(part)) for part in parts]
    if len(parts) == 1:
        return True
    if len(parts) == 2:
        return _integer(parts[1]) if is_memory[0] else is_memory[1] or _positive(parts[1])
    return len(parts) == 3 and is_memory[1] and _integer(parts[2])


def substitutes(value: Data, variables: Mapping[str, str]) -> bool:
    """Accept a field that is valid JSON after SkyPilot substitutes variables in it."""
    try:
        serialized = json.dumps(value)
    except (TypeError, ValueError):
        return False
    filled = _REFERENCE.sub(lambda match: variables.get(match[1], match[0]), serialized)
    try:
        json.loads(filled)
    except ValueError:
        return False
    return True


def _positive(text: str) -> bool:
    try:
        return not float(text) <= 0  # NaN passes
    except ValueError:
        return False


def _integer(text: str) -> bool:
    try:
        return int(text) > 0
    except ValueError:
        return False


_TPU_CLOUDS = ("", "*", "gcp", "kubernetes", "k8s")
_NULLS = ("ports", "image_id")  # fields that may be null in a candidate


def differences(document: Document) -> list[Problem]:
    """Return the reasons why SkyPilot refuses a document that is valid here."""
    rules = _VOLUME_RULES if document.is_volume else _RULES
    return sorted(dict.fromkeys(problem for rule in rules for problem in rule(document)))


class _Field(Struct, frozen=True):
    """A field of resources: SkyPilot's check, a message, and a hint for both tools."""

    takes: Callable[[Data], bool]
    message: str
    hint: str


_GPU = "SkyPilot requires a GPU's name, and its count as a number"
_ONE_GPU = "SkyPilot allows one kind of GPU here, with its name"
_SIZE = _Field(takes_disk, "SkyPilot allows only whole GB", "such as 256 or 1TB")
_FIELDS = {
    "cpus": _Field(
        takes_cpus, "SkyPilot does not accept a Kubernetes quantity here", "such as 0.5 or 4+"
    ),
    "memory": _Field(takes_memory, "SkyPilot does not know this unit", "such as 8, 16GB or 512Mi"),
    "disk_size": _SIZE,
    "ephemeral_storage": _Field(takes_dropped_disk, _SIZE.message, _SIZE.hint),
    "accelerators": _Field(takes_accelerators, _GPU, "such as V100:2"),
    "labels": _Field(takes_labels, "SkyPilot allows only text", "put the values in quotes"),
    "cloud": _Field(takes_cloud, "SkyPilot does not know this short name", "infra: k8s"),
    "autostop": _Field(takes_autostop, "SkyPilot counts whole minutes", "such as 1m"),
}
_IN_CANDIDATES = _FIELDS | {
    "accelerators": _Field(takes_candidate_accelerators, _ONE_GPU, "such as V100:2")
}


def _resources(document: Document) -> Iterator[Problem]:
    for path in document.candidates():
        for name, field in (_FIELDS if len(path) == 1 else _IN_CANDIDATES).items():
            for alias in (name, "gpus") if name == "accelerators" else (name,):
                value = document.get(*path, alias)
                if value is not None and not field.takes(value):
                    yield document.problem((*path, alias), field.message, field.hint)


def _candidates(document: Document) -> Iterator[Problem]:
    """Check the fields of a candidate against the resources around the candidates."""
    outer = _mapping(document, "resources")
    for path in document.candidates():
        values = _mapping(document, *path)
        if "gpus" in values and "accelerators" in values:
            message = "SkyPilot allows accelerators or gpus, not both; an empty field counts as set"
            yield document.problem((*path, "gpus"), message, "leave it out", key=True)
        if len(path) == 1:
            continue
        for field, value in values.items():
            if value is None and field not in _NULLS:
                message = "is empty, which SkyPilot refuses here"
                yield document.problem((*path, field), message, "leave it out", key=True)
        if _two_places(outer | values):
            message = (
                "SkyPilot merges this with the fields above; infra cannot be combined with cloud,"
            )
            yield document.problem(path, message + " region or zone")


def _two_places(values: dict[Data, Data]) -> bool:
    cloud_fields = [values.get(field) for field in ("cloud", "region", "zone")]
    return values.get("infra") is not None and any(value is not None for value in cloud_fields)


def _lists(document: Document) -> Iterator[Problem]:
    """Check for several GPUs together with several candidates."""
    resources = _mapping(document, "resources")
    field = "gpus" if resources.get("accelerators") is None else "accelerators"
    gpus = resources.get(field)
    if not isinstance(gpus, list | dict) or len(set(map(str, gpus))) < 2:
        return
    if resources.get("ordered") or (resources.get("any_of") and isinstance(gpus, list)):
        message = "SkyPilot allows only one GPU with these candidates"
        yield document.problem(("resources", field), message, "name it in each", key=True)


def _priorities(document: Document) -> Iterator[Problem]:
    outer = _mapping(document, "resources").get("priority")
    paths = [path for path in document.candidates() if len(path) > 1]
    priorities = [_mapping(document, *path).get("priority", outer) for path in paths]
    if len(set(map(str, priorities))) > 1:
        message = "SkyPilot requires the same priority in all candidates"
        yield document.problem(paths[0][:2], message, key=True)


def _tpus(document: Document) -> Iterator[Problem]:
    outer = _mapping(document, "resources")
    for path in document.candidates():
        values = outer | _mapping(document, *path)
        provider = str(values.get("infra") or values.get("cloud") or "").split("/")[0].lower()
        accelerators = values.get("accelerators", values.get("gpus"))
        gpu_names = (
            [str(name) for name in accelerators]
            if isinstance(accelerators, dict | list)
            else [str(accelerators)]
        )
        if provider not in _TPU_CLOUDS and any("tpu" in name.lower() for name in gpu_names):
            message = "SkyPilot supports TPUs only on gcp and kubernetes"
            yield document.problem((*path, "accelerators"), message)


def _disks(document: Document) -> Iterator[Problem]:
    for path in document.candidates():
        items = document.get(*path, "volumes")
        for index, item in enumerate(items if isinstance(items, list) else []):
            if not isinstance(item, dict):
                continue
            is_instance_disk = str(item.get("storage_type")).lower() == "instance"
            missing = [name for name in ("path", "name") if name not in item]
            if "path" in missing or (missing and not is_instance_disk):
                yield document.problem(
                    (*path, "volumes", index), f"SkyPilot requires {' and '.join(missing)}"
                )
            elif isinstance(item.get("disk_size"), str) and not is_instance_disk:
                message = "SkyPilot accepts only a number here, unlike its documentation"
                yield document.problem((*path, "volumes", index, "disk_size"), message)


def _fails_at(document: Document) -> Iterator[Problem]:
    """Check for empty fields that make SkyPilot fail."""
    for path in _NOTHING:
        parent = _mapping(document, *path[:-1])
        if path[-1] in parent and parent[path[-1]] is None:
            message = f"SkyPilot fails if {path[-1]} is empty"
            yield document.problem(path, message, "leave it out", key=True)
    if document.get("volume_mounts"):
        message = "SkyPilot fails if its field volume_mounts is set"
        yield document.problem(("volume_mounts",), message, "leave it out", key=True)


_NOTHING: tuple[tuple[str, ...], ...] = (
    ("envs",),
    ("inputs",),
    ("outputs",),
    ("service", "readiness_probe"),
)


def _substituted(document: Document) -> Iterator[Problem]:
    variables = {
        str(name): "x" if value is None else revealed(value)
        for field in ("envs", "secrets")
        for name, value in _mapping(document, field).items()
        if value is not None or field == "envs"
    }
    for field in SUBSTITUTED:
        value = document.get(field)
        if value is not None and not substitutes(value, variables):
            message = (
                "SkyPilot cannot substitute a variable that has quotes, backslashes or line breaks"
            )
            yield document.problem((field,), message)


def _extensions(document: Document) -> Iterator[Problem]:
    for field in _mapping(document):
        if str(field).startswith("x-"):
            message, hint = (
                "SkyPilot does not allow custom fields",
                "put anchors where they are used",
            )
            yield document.problem((str(field),), message, hint, key=True)


def _groups(document: Document) -> Iterator[Problem]:
    name = document.get("name")
    is_valid = isinstance(name, str) and all(char.isalnum() or char in "-_" for char in name)
    if document.parallel and not (is_valid and (name or not document.is_header)):
        path: Path = ("name",) if name is not None else ()
        message = "SkyPilot allows only letters, digits, - and _ in a group"
        yield document.problem(path, message)


def _registry(document: Document) -> Iterator[Problem]:
    variables = [
        (field, name)
        for field in ("envs", "secrets")
        for name in REGISTRY
        if _mapping(document, field).get(name) is not None
    ]
    if len({field for field, _ in variables}) > 1:
        message = "SkyPilot requires all of these variables in envs, or all in secrets"
        yield document.problem(variables[-1], message, key=True)


def _claim(document: Document) -> Iterator[Problem]:
    """Check a volume's name, infra and size."""
    name, infra, size = map(document.get, ("name", "infra", "size"))
    if not names.SUBDOMAIN.fullmatch(str(name)):
        message = "SkyPilot allows only lowercase letters, digits, - and ."
        yield document.problem(("name",), message)
    if document.get("type") == "runpod-network-volume":
        if len(str(infra).split("/")) < 3:
            message = "SkyPilot needs the data center"
            yield document.problem((), message, "infra: runpod/REGION/ZONE")
        return
    if infra is not None and not str(infra).lower().startswith(("k8s", "kubernetes")):
        yield document.problem(("infra",), "SkyPilot creates such a volume only on Kubernetes")
    needs_size = document.get("type") == "k8s-pvc" and not document.get("use_existing")
    if (needs_size or size is not None) and not takes_volume_size(size):
        path: Path = () if size is None else ("size",)
        yield document.problem(path, "SkyPilot needs a size of 1Gi or more")


def _host(document: Document) -> Iterator[Problem]:
    if document.get("type") == "k8s-hostpath":
        host = document.get("config", "host_path")
        if not str(host).startswith("/") or not str(host).strip("/"):
            message = "SkyPilot needs config: {host_path: …}, an absolute path"
            yield document.problem((), message)


def _mapping(document: Document, *path: str | int) -> dict[Data, Data]:
    value = document.get(*path)
    return value if isinstance(value, dict) else {}


_RULES: tuple[Callable[[Document], Iterator[Problem]], ...] = (
    _fails_at,
    _resources,
    _candidates,
    _lists,
    _priorities,
    _tpus,
    _disks,
    _substituted,
    _extensions,
    _groups,
    _registry,
)
_VOLUME_RULES: tuple[Callable[[Document], Iterator[Problem]], ...] = (_claim, _host)
