"""What a container is told: its command and variables, and what of a pod they may quote."""

import json
import os
import re
import sys
from base64 import b64decode
from collections.abc import Mapping
from math import ceil
from pathlib import Path

from kubectl_sky.practice import quantities
from kubectl_sky.practice.problems import Json
from kubectl_sky.practice.sandbox import HOME
from kubectl_sky.practice.state import State

# Packages are fetched as the user fetches them: by the proxy and from the index of the machine.
_PASSED = re.compile(
    r"(PIP_.*|SSL_CERT_.*|REQUESTS_CA_BUNDLE|(https?|no|all)_proxy)$", re.IGNORECASE
)
_REFERENCE = re.compile(r"\$(?:\$|\(([-._a-zA-Z0-9]+)\))")
_ENTRY = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")
_LISTS = {"status.podIPs": "podIPs", "status.hostIPs": "hostIPs"}
# What well-known images run when the pod does not say it; images are not read here.
_COMMANDS = {"python": ["python3"], "busybox": ["sh"], "alpine": ["sh"]}
_COMMANDS |= {"debian": ["bash"], "ubuntu": ["bash"], "bash": ["bash"]}


class ConfigError(Exception):
    """Something that a container needs is not there."""

    reason = "CreateContainerConfigError"


class CreateError(ConfigError):
    """A container that cannot be made."""

    reason = "CreateContainerError"


def contents(state: State, kind: str, key: tuple[str, str]) -> dict[str, bytes] | None:
    """Return what a ConfigMap or a Secret has; None if it is not there."""
    found = state.get(f"{kind.lower()}s", *key)
    if found is None:
        return None
    data, encoded = found.get("data") or {}, found.get("binaryData") or {}
    if kind == "Secret":
        data, encoded = {}, data
    texts = {name: text.encode() for name, text in data.items()}
    return texts | {name: b64decode(text) for name, text in encoded.items()}


def field_of(pod: Json, path: str) -> str:
    """Return what a fieldRef stands for."""
    entry = _ENTRY.fullmatch(path)
    if entry:
        return str((pod["metadata"].get(entry[1]) or {}).get(entry[2], ""))
    if path in _LISTS:
        return ",".join(one["ip"] for one in pod["status"].get(_LISTS[path], ()))
    part, _, name = path.partition(".")
    value = pod[part].get(name) or ""
    if isinstance(value, dict):
        return "\n".join(f"{key}={json.dumps(text)}" for key, text in sorted(value.items()))
    return str(value)


def amount_of(pod: Json, container: Json, reference: Json, node: Json) -> str:
    """Return what a resourceFieldRef stands for: a whole number of divisors, rounded up."""
    named = reference.get("containerName")
    if named:
        container = next(one for one in pod["spec"]["containers"] if one["name"] == named)
    part, _, name = reference["resource"].partition(".")
    amount = (container.get("resources", {}).get(part) or {}).get(name)
    if amount is None:
        amount = node["status"]["allocatable"].get(name, "0") if part == "limits" else "0"
    divisor = quantities.parse(reference.get("divisor") or "1").value or 1
    return str(ceil(quantities.parse(amount).value / divisor))


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace $(NAME); $$ is a dollar, and what is not known stays."""
    return _REFERENCE.sub(lambda found: values.get(found[1], found[0]) if found[1] else "$", text)


def own(pod: Json, container: Json, state: State) -> dict[str, str]:
    """Return the variables that the pod gives a container. Raises ConfigError."""
    values, found = _whole(pod, container, state), dict[str, str]()
    for variable in container.get("env") or ():
        value = variable.get("value", "")
        if variable.get("valueFrom"):
            given = _value(variable["valueFrom"], pod, container, state)
            if given is None:
                continue
            found[variable["name"]] = given
        else:
            found[variable["name"]] = expand(value, values | found)
    return values | found


def _whole(pod: Json, container: Json, state: State) -> dict[str, str]:
    values = {}
    for source in container.get("envFrom") or ():
        kind = "ConfigMap" if "configMapRef" in source else "Secret"
        reference = source.get("configMapRef") or source["secretRef"]
        data = contents(state, kind, (pod["metadata"]["namespace"], reference["name"]))
        if data is None and not reference.get("optional"):
            raise ConfigError(f'{kind.lower()} "{reference["name"]}" not found')
        for name, value in (data or {}).items():
            values[source.get("prefix", "") + name] = value.decode(errors="replace")
    return values


def _value(source: Json, pod: Json, container: Json, state: State) -> str | None:
    if "fieldRef" in source:
        return field_of(pod, source["fieldRef"]["fieldPath"])
    if "resourceFieldRef" in source:
        node = state.get("nodes", "", pod["spec"]["nodeName"])
        return amount_of(pod, container, source["resourceFieldRef"], node or {"status": {}})
    kind = "ConfigMap" if "configMapKeyRef" in source else "Secret"
    reference = source.get("configMapKeyRef") or source["secretKeyRef"]
    key = (pod["metadata"]["namespace"], reference["name"])
    data = contents(state, kind, key)
    if data is not None and reference["key"] in data:
        return data[reference["key"]].decode(errors="replace")
    if reference.get("optional"):
        return None
    if data is None:
        raise ConfigError(f'{kind.lower()} "{reference["name"]}" not found')
    raise ConfigError(f"couldn't find key {reference['key']} in {kind} {'/'.join(key)}")


def whole(pod: Json, given: Mapping[str, str], home: str = HOME) -> dict[str, str]:
    """Return all variables of a container: those of the pod, and what every image has."""
    python = Path(os.path.realpath(getattr(sys, "_base_executable", sys.executable))).parent
    system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    base = {name: value for name, value in os.environ.items() if _PASSED.match(name)}
    base |= {"PATH": f"{home}/.local/bin:{python}:{system}", "HOME": home}
    base |= {"HOSTNAME": hostname(pod)}
    base.setdefault("PIP_BREAK_SYSTEM_PACKAGES", "1")  # they go into the pod's own home
    return {**base, **given}


def hostname(pod: Json) -> str:
    """Return how a pod calls itself."""
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"])[:63]


def command(container: Json, given: Mapping[str, str]) -> list[str]:
    """Return what a container runs. Raises CreateError."""
    written = [*(container.get("command") or ()), *(container.get("args") or ())]
    if written:
        return [expand(text, given) for text in written]
    image = container["image"].rpartition("/")[2].partition("@")[0].partition(":")[0]
    if image not in _COMMANDS:
        raise CreateError("no command specified: images are not read by the practice cluster")
    return _COMMANDS[image]
