"""What the API tells of itself: groups, resources, and their schemas as OpenAPI."""

import platform
from collections.abc import Iterator

from kubectl_sky.practice import problems, schemas
from kubectl_sky.practice.resources import Json, Resource, Resources

VERSION = "v1.36.0"
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_SUBRESOURCES = {
    "pods": (
        ("log", "Pod", ["get"]),
        ("exec", "PodExecOptions", ["create", "get"]),
        ("portforward", "PodPortForwardOptions", ["create", "get"]),
    ),
    "serviceaccounts": (("token", "TokenRequest", ["create"]),),
}
# Answered at once and never stored.
REVIEWS = {
    "authentication.k8s.io/v1/selfsubjectreviews": "SelfSubjectReview",
    "authorization.k8s.io/v1/selfsubjectaccessreviews": "SelfSubjectAccessReview",
}


def answer(path: str, resources: Resources) -> Json | None:
    """Return what is told at a path; None if it is not one of these. Raises Problem."""
    parts = path.strip("/").split("/")
    if path == "/version":
        return _version()
    if parts[:2] == ["openapi", "v3"]:
        return _openapi(parts[2:], resources)
    if parts[0] == "api":
        return _core(parts[1:], resources)
    if parts[0] == "apis":
        return _grouped(parts[1:], resources)
    return None


def _core(parts: list[str], resources: Resources) -> Json | None:
    if not parts:
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    return _list(resources, "", "v1") if parts == ["v1"] else None


def _grouped(parts: list[str], resources: Resources) -> Json | None:
    groups = _groups(resources)
    if not parts:
        found = [_group(name, versions) for name, versions in groups.items() if name]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}
    if parts[0] not in groups or len(parts) > 2:
        return None
    if len(parts) == 1:
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(parts[0], groups[parts[0]])}
    if parts[1] not in groups[parts[0]]:
        raise problems.no_path()
    return _list(resources, *parts)


def _reviews() -> Iterator[list[str]]:
    return (path.split("/") for path in REVIEWS)


def _version() -> Json:
    major, minor = VERSION.lstrip("v").split(".")[:2]
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    where = f"{platform.system().lower()}/{machine}"
    text = f"{VERSION}+practice"
    return {"major": major, "minor": minor, "gitVersion": text, "platform": where}


def _groups(resources: Resources) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    pairs = [(one.group, one.version) for one in resources.all()]
    for group, version in [*pairs, *((group, version) for group, version, _ in _reviews())]:
        if version not in found.setdefault(group, []):
            found[group].append(version)
    return found


def _group(name: str, versions: list[str]) -> Json:
    known = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": known, "preferredVersion": known[0]}


def _list(resources: Resources, group: str, version: str) -> Json:
    found: list[Json] = []
    for one in resources.all():
        if (one.group, one.version) == (group, version):
            found += _entries(one)
    for own_group, own_version, plural in _reviews():
        if (own_group, own_version) == (group, version):
            kind = REVIEWS[f"{group}/{version}/{plural}"]
            entry = {"name": plural, "singularName": kind.lower(), "namespaced": False}
            found.append({**entry, "kind": kind, "verbs": ["create"]})
    name = f"{group}/{version}" if group else version
    own = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name}
    return {**own, "resources": sorted(found, key=lambda entry: str(entry["name"]))}


def _entries(resource: Resource) -> list[Json]:
    entry: Json = {"name": resource.plural, "singularName": resource.kind.lower()}
    entry |= {"namespaced": resource.namespaced, "kind": resource.kind, "verbs": _VERBS}
    if resource.short:
        entry["shortNames"] = list(resource.short)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    subresources = [*_SUBRESOURCES.get(resource.storage, ())]
    if resource.status:
        subresources.append(("status", resource.kind, ["get", "patch", "update"]))
    below = [
        {"name": f"{resource.plural}/{name}", "singularName": "", "kind": kind, "verbs": verbs}
        | {"namespaced": resource.namespaced}
        for name, kind, verbs in subresources
    ]
    return [entry, *below]


def _openapi(parts: list[str], resources: Resources) -> Json:
    prefixes: dict[str, list[Resource]] = {}
    for one in resources.all():
        prefix = f"apis/{one.api_version}" if one.group else f"api/{one.version}"
        prefixes.setdefault(prefix, []).append(one)
    if not parts:
        urls = {prefix: {"serverRelativeURL": f"/openapi/v3/{prefix}"} for prefix in prefixes}
        return {"paths": urls}
    prefix = "/".join(parts)
    if prefix not in prefixes:
        raise problems.no_path()
    known: Json = {}
    paths: Json = {}
    for one in prefixes[prefix]:
        root = schemas.root(one)
        own = {"group": one.group, "version": one.version, "kind": one.kind}
        known[schemas.name(one)] = {**root, "x-kubernetes-group-version-kind": [own]}
        known |= {name: schemas.definitions()[name] for name in schemas.references(root)}
        scope = "/namespaces/{namespace}" if one.namespaced else ""
        for end in ("", "/{name}"):
            paths[f"/{prefix}{scope}/{one.plural}{end}"] = _operations(own, bool(end))
    info = {"title": "Kubernetes", "version": VERSION}
    found: Json = {"openapi": "3.0.0", "info": info, "paths": paths}
    return {**found, "components": {"schemas": known}}


def _operations(kind: Json, one: bool) -> Json:
    asked = ("dryRun", "fieldManager", "fieldValidation")
    text = {"type": "string"}
    parameters = [{"name": name, "in": "query", "schema": text} for name in asked]
    verbs = {"get": "list", "post": "post"}
    if one:
        verbs = {"get": "get", "put": "put", "patch": "patch"}
    return {
        method: {
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": kind,
            "parameters": parameters,
            "responses": {},
        }
        for method, action in verbs.items()
    }
