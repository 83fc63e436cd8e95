"""Discovery: the version, the API groups, their resources, and minimal OpenAPI documents."""

import platform
from collections.abc import Iterator

from kubectl_sky_practice import problems
from kubectl_sky_practice.resources import Json, Resource, Resources

VERSION = "v1.36.0"
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
ARCHITECTURE = _MACHINES.get(platform.machine(), platform.machine())
_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
_SUBRESOURCES = {
    "pods": (
        ("log", "Pod", ["get"]),
        ("exec", "PodExecOptions", ["create", "get"]),
        ("portforward", "PodPortForwardOptions", ["create", "get"]),
    ),
    "serviceaccounts": (("token", "TokenRequest", ["create"]),),
}
# Kinds that are answered at once and never stored.
REVIEWS = {
    "authentication.k8s.io/v1/selfsubjectreviews": "SelfSubjectReview",
    "authorization.k8s.io/v1/selfsubjectaccessreviews": "SelfSubjectAccessReview",
}


def get(path: str, resources: Resources) -> Json | None:
    """Return the document at a path; None if it is a path of something else. Raises Problem."""
    parts = path.strip("/").split("/")
    if parts == ["version"]:
        return _version()
    if parts[:2] == ["openapi", "v3"]:
        return _openapi("/".join(parts[2:]), resources)
    if parts == ["api"]:
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    if parts == ["api", "v1"]:
        return _resource_list(resources, "", "v1")
    return _group_document(parts[1:], resources) if parts[0] == "apis" else None


def _group_document(parts: list[str], resources: Resources) -> Json | None:
    groups = _groups(resources)
    if not parts:
        entries = [_group(name, versions) for name, versions in groups.items() if name]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": entries}
    if parts[0] not in groups or len(parts) > 2:
        return None
    if len(parts) == 1:
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(parts[0], groups[parts[0]])}
    if parts[1] not in groups[parts[0]]:
        raise problems.no_path()
    return _resource_list(resources, *parts)


def _version() -> Json:
    major, minor = VERSION.lstrip("v").split(".")[:2]
    system = f"{platform.system().lower()}/{ARCHITECTURE}"
    version = f"{VERSION}+practice"
    return {"major": major, "minor": minor, "gitVersion": version, "platform": system}


def _groups(resources: Resources) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for resource in resources.all():
        if resource.version not in groups.setdefault(resource.group, []):
            groups[resource.group].append(resource.version)
    return groups


def _group(name: str, versions: list[str]) -> Json:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _resource_list(resources: Resources, group: str, version: str) -> Json:
    entries: list[Json] = []
    for resource in resources.all():
        if (resource.group, resource.version) == (group, version):
            entries += _entries(resource)
    name = f"{group}/{version}" if group else version
    header = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name}
    return {**header, "resources": sorted(entries, key=lambda entry: str(entry["name"]))}


def _entries(resource: Resource) -> Iterator[Json]:
    scope = {"namespaced": resource.namespaced}
    entry = {"name": resource.plural, "singularName": resource.kind.lower(), **scope}
    entry |= {"kind": resource.kind, "verbs": _VERBS}
    lists = {"shortNames": list(resource.short), "categories": list(resource.categories)}
    yield entry | {key: names for key, names in lists.items() if names}
    subresources = [*_SUBRESOURCES.get(resource.storage, ())]
    if resource.status:
        subresources.append(("status", resource.kind, ["get", "patch", "update"]))
    for name, kind, verbs in subresources:
        path = f"{resource.plural}/{name}"
        yield {"name": path, "singularName": "", "kind": kind, "verbs": verbs, **scope}


def _openapi(prefix: str, resources: Resources) -> Json:
    """Return a document with the query options of patches, which kubectl looks up there.

    It has no schemas: `kubectl explain` is not supported.
    """
    documents: dict[str, Json] = {}
    text = {"type": "string"}
    options = [
        {"name": name, "in": "query", "schema": text}
        for name in ("dryRun", "fieldManager", "fieldValidation")
    ]

    for resource in resources.all():
        kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        patch = {"x-kubernetes-action": "patch", "x-kubernetes-group-version-kind": kind}
        root = f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"
        paths = documents.setdefault(root, {})
        path = f"/{root}/{resource.plural}/{{name}}"
        paths[path] = {"patch": {**patch, "parameters": options, "responses": {}}}

    if not prefix:
        urls = {root: {"serverRelativeURL": f"/openapi/v3/{root}"} for root in documents}
        return {"paths": urls}
    if prefix not in documents:
        raise problems.no_path()
    info = {"title": "Kubernetes", "version": VERSION}
    return {"openapi": "3.0.0", "info": info, "paths": documents[prefix]}
