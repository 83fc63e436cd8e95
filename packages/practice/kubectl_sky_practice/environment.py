"""The command and the environment variables of containers."""

import json
import os
import re
import sys
from base64 import b64decode
from collections.abc import Mapping
from math import ceil
from pathlib import Path

from kubectl_sky_practice import quantities
from kubectl_sky_practice.container_init import HOME
from kubectl_sky_practice.problems import Json
from kubectl_sky_practice.state import State

# Packages are downloaded as the user downloads them: through the machine's proxy and index.
_INHERITED = re.compile(
    r"(PIP_.*|SSL_CERT_.*|REQUESTS_CA_BUNDLE|(https?|no|all)_proxy)$", re.IGNORECASE
)
_REFERENCE = re.compile(r"\$(?:\$|\(([-._a-zA-Z0-9]+)\))")
_MAP_FIELD = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# The default commands of well-known images; images are not read here.
_COMMANDS = {"python": ["python3"], "busybox": ["sh"], "alpine": ["sh"]}
_COMMANDS |= {"debian": ["bash"], "ubuntu": ["bash"], "bash": ["bash"]}


class ConfigError(Exception):
    reason = "CreateContainerConfigError"


class CreateError(ConfigError):
    reason = "CreateContainerError"


def contents(state: State, kind: str, key: tuple[str, str]) -> dict[str, bytes] | None:
    obj = state.get(f"{kind.lower()}s", *key)
    if obj is None:
        return None
    text = obj.get("data") or {}
    binary = obj.get("binaryData") or {}
    if kind == "Secret":
        binary = text
        text = {}
    data = {name: value.encode() for name, value in text.items()}
    return data | {name: b64decode(value) for name, value in binary.items()}


def field_value(pod: Json, path: str) -> str:
    if entry := _MAP_FIELD.fullmatch(path):
        return str((pod["metadata"].get(entry[1]) or {}).get(entry[2], ""))
    part, _, name = path.partition(".")
    value = pod[part].get(name) or ""
    if isinstance(value, dict):
        return "\n".join(f"{key}={json.dumps(text)}" for key, text in sorted(value.items()))
    return str(value)


def resource_value(pod: Json, container: Json, reference: Json, state: State) -> str:
    """Return the value of a resourceFieldRef: a whole number of divisors, rounded up."""
    part, _, resource = reference["resource"].partition(".")
    amount = (container.get("resources", {}).get(part) or {}).get(resource)
    if amount is None and part == "limits":
        node = state.get("nodes", "", pod["spec"]["nodeName"]) or {"status": {}}
        amount = node["status"].get("allocatable", {}).get(resource)
    divisor = quantities.parse(reference.get("divisor") or "1").value or 1
    return str(ceil(quantities.parse(amount or "0").value / divisor))


def expand(text: str, values: Mapping[str, str]) -> str:
    return _REFERENCE.sub(lambda match: values.get(match[1], match[0]) if match[1] else "$", text)


def variables(pod: Json, container: Json, state: State) -> dict[str, str]:
    """Return the variables that the pod sets for a container. Raises ConfigError."""
    values = _env_from(pod, container, state)
    for variable in container.get("env") or ():
        value: str | None = expand(variable.get("value", ""), values)
        if variable.get("valueFrom"):
            value = _value_from(variable["valueFrom"], pod, container, state)
        if value is not None:
            values[variable["name"]] = value
    return values


def _env_from(pod: Json, container: Json, state: State) -> dict[str, str]:
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


def _value_from(source: Json, pod: Json, container: Json, state: State) -> str | None:
    if "fieldRef" in source:
        return field_value(pod, source["fieldRef"]["fieldPath"])
    if "resourceFieldRef" in source:
        return resource_value(pod, container, source["resourceFieldRef"], state)

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


def with_defaults(pod: Json, values: Mapping[str, str]) -> dict[str, str]:
    python = Path(os.path.realpath(getattr(sys, "_base_executable", sys.executable))).parent
    defaults = {name: value for name, value in os.environ.items() if _INHERITED.match(name)}
    defaults |= {"PATH": f"{HOME}/.local/bin:{python}:{_PATH}", "HOME": HOME}
    defaults |= {"HOSTNAME": hostname(pod)}
    defaults.setdefault("PIP_BREAK_SYSTEM_PACKAGES", "1")  # packages go into the container's home
    return {**defaults, **values}


def hostname(pod: Json) -> str:
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"])[:63]


def command(container: Json, values: Mapping[str, str]) -> list[str]:
    """Return the command of a container. Raises CreateError."""
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    if words:
        return [expand(word, values) for word in words]
    image = container["image"].rpartition("/")[2].partition("@")[0].partition(":")[0]
    if image not in _COMMANDS:
        raise CreateError("no command specified: images are not read by the practice cluster")
    return _COMMANDS[image]
