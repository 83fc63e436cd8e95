"""The keys of clusters and users in a kubeconfig: kubectl's own, each refused if it is unknown."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import ValidationError, convert

from kubectl_sky.errors import ClusterError, did_you_mean

Entry = dict[str, Any]

_TEXT = (str, "a string")
_TEXTS = (list[str], "a list of strings")
_SWITCH = (bool, "true or false")
_MAP = (dict[str, Any], "a map")
_MAPS = (list[dict[str, Any]], "a list of maps")
_PLUGIN = {
    "apiVersion": _TEXT,
    "args": _TEXTS,
    "command": _TEXT,
    "env": _MAPS,
    "installHint": _TEXT,
    "interactiveMode": (Literal["Never", "IfAvailable", "Always"], "Never, IfAvailable or Always"),
    "provideClusterInfo": _SWITCH,
}
_KEYS: Mapping[str, Mapping[str, tuple[Any, str]]] = {
    "cluster": {
        "certificate-authority": _TEXT,
        "certificate-authority-data": _TEXT,
        "disable-compression": _SWITCH,
        "extensions": _MAPS,
        "insecure-skip-tls-verify": _SWITCH,
        "proxy-url": _TEXT,
        "server": _TEXT,
        "tls-server-name": _TEXT,
    },
    "user": {
        "as": _TEXT,
        "as-groups": _TEXTS,
        "as-uid": _TEXT,
        "as-user-extra": (dict[str, list[str] | None], "a map of lists of strings"),
        "auth-provider": _MAP,
        "client-certificate": _TEXT,
        "client-certificate-data": _TEXT,
        "client-key": _TEXT,
        "client-key-data": _TEXT,
        "exec": _MAP,
        "extensions": _MAPS,
        "password": _TEXT,
        "token": _TEXT,
        "tokenFile": _TEXT,
        "username": _TEXT,
    },
}
_BASIC = {"username", "password"}
_REMOVED_PROVIDERS = {
    "gcp": "install gke-gcloud-auth-plugin, then run `gcloud container clusters get-credentials`",
    "azure": "install kubelogin, then run `kubelogin convert-kubeconfig`",
}


def reject(paths: str, why: str, hint: str = "see `kubectl config view`") -> ClusterError:
    return ClusterError(f"cannot use the kubeconfig {paths}: {why}", hint)


def check(kind: str, name: object, entry: Entry, path: str) -> None:
    """Raise ClusterError unless kubectl knows each key of a cluster or user, and its type."""
    where = f'{kind} "{name}"'
    _check_keys(_KEYS[kind], where, entry, path)
    if kind == "user":
        _check_user(where, entry, path)


def _check_keys(keys: Mapping[str, tuple[Any, str]], where: str, entry: Entry, path: str) -> None:
    for key, value in entry.items():
        if key not in keys:
            hint = f"{did_you_mean(str(key), keys)}correct or remove it: kubectl ignores it"
            raise reject(path, f'{where} has an unknown key "{key}"', hint)
        kind, description = keys[key]
        try:
            convert(value, kind | None)
        except ValidationError:
            raise reject(path, f"{key} of {where} is not {description}", "correct it") from None


def _check_user(where: str, entry: Entry, path: str) -> None:
    if "exec" in entry:
        _check_keys(_PLUGIN, f"exec of {where}", entry["exec"], path)
    if {"token", "tokenFile"} & set(entry) and _BASIC & set(entry):
        raise reject(path, f"{where} has a token and a password", "remove one of them")
    if "auth-provider" not in entry:
        return
    if "exec" in entry:
        raise reject(path, f"{where} has exec and auth-provider", "remove one of them")
    provider = entry["auth-provider"].get("name")
    if provider != "oidc":
        plugin = _REMOVED_PROVIDERS.get(provider, "use a token, a client certificate or exec")
        raise reject(path, f'auth-provider "{provider}" of {where} is not supported', plugin)
