"""API requests: the path, the query options, the headers and the decoded body."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from kubectl_sky_practice import problems, protobuf, schemas, validation
from kubectl_sky_practice.access import User
from kubectl_sky_practice.resources import Json, Resource, Resources

APPLY = "application/apply-patch+yaml"
_TRUE = ("true", "1", "True")
_MEDIA_TYPES = ("application/json", protobuf.TYPE)
_METADATA = re.compile("as=PartialObjectMetadata(List)?;")
_SUPPORTED = {
    "dryRun": ("All",),
    "fieldValidation": ("Ignore", "Strict", "Warn"),
    "propagationPolicy": ("Foreground", "Background"),
}


@dataclass(frozen=True)
class RequestInfo:
    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


@dataclass
class Request:
    """An authenticated request. `warnings` are sent as headers of the response."""

    user: User
    method: str
    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    warnings: list[str] = field(default_factory=list)

    def flag(self, name: str) -> bool:
        return self.query.get(name, "") in _TRUE

    def number(self, name: str) -> int | None:
        """Return a number of the query. Raises Problem."""
        text = self.query.get(name, "")
        try:
            return int(text) if text else None
        except ValueError:
            raise problems.bad_request(f"{name}: {text!r} is not a number") from None

    @property
    def dry_run(self) -> bool:
        return self.query.get("dryRun") == "All"

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip()

    @property
    def as_table(self) -> str:
        """The `includeObject` of a Table response; empty if no Table is accepted."""
        accepted = self.headers.get("accept", "").split(",")[0]
        return self.query.get("includeObject", "Metadata") if "as=Table" in accepted else ""

    @property
    def as_metadata(self) -> bool:
        accepted = self.headers.get("accept", "").split(",")[0]
        return bool(_METADATA.search(f"{accepted.replace(' ', '')};"))

    def decode(self, group: str, version: str, kind: str) -> Json:
        """Decode the body: JSON, or protobuf of a kind. Raises Problem."""
        if self.content_type not in (*_MEDIA_TYPES, APPLY, ""):
            raise problems.unsupported(_MEDIA_TYPES)
        try:
            if self.content_type == protobuf.TYPE:
                return protobuf.decode(self.body, group, version, kind)
            value = decode(self.body)
        except ValueError as error:
            raise problems.bad_request(f"the body cannot be decoded: {error}") from None
        if not isinstance(value, dict | None):
            raise problems.bad_request("the body cannot be decoded: not an object")
        return value or {}

    def object(self, info: RequestInfo, body: Json | None = None) -> Json:
        """Return the body, or another one, as an object of a kind and path. Raises Problem."""
        resource = info.resource
        if body is None:
            body = self.decode(resource.group, resource.version, resource.kind)

        expected = (resource.api_version, resource.kind)
        given = (body.get("apiVersion") or expected[0], body.get("kind") or expected[1])
        if given != expected:
            why = f"expected {' '.join(expected)}, got {given[0]} {given[1]}"
            raise _not_decoded(resource, why)
        body = self._check_fields(info, body)

        metadata = body.setdefault("metadata", {})
        if self.method == "PUT" and not metadata.get("name"):
            raise problems.bad_request("the name of the object must be provided")
        if info.name and metadata.setdefault("name", info.name) != info.name:
            text = f"the name of the object ({metadata['name']}) does not match the name on the URL"
            raise problems.bad_request(f"{text} ({info.name})")
        if metadata.get("namespace", info.namespace) != info.namespace:
            text = "the namespace of the object does not match the namespace of the request"
            raise problems.bad_request(text)
        return body

    def _check_fields(self, info: RequestInfo, body: Json) -> Json:
        resource = info.resource
        schema = schemas.root(resource)
        mode = self.query.get("fieldValidation") or "Warn"

        pruned, unknown = schemas.prune(body, schema)
        texts = [f'unknown field "{path}"' for path in sorted(unknown)]
        if unknown and self.content_type == APPLY and not resource.custom:
            raise _not_typed(info, f"{min(unknown)}: field not declared in schema")
        if texts and mode == "Strict":
            raise _not_decoded(resource, f"strict decoding error: {', '.join(texts)}")
        if mode == "Warn":
            self.warnings += texts

        mistyped = validation.mistyped(pruned, resource)
        if mistyped and self.content_type == APPLY:
            raise _not_typed(info, mistyped)
        if mistyped and self.method == "PATCH":
            raise problems.invalid("", "", [validation.invalid("patch", None, mistyped)])
        if mistyped:
            raise _not_decoded(resource, mistyped)

        if resource.custom and self.content_type != APPLY:  # defaults have no field manager
            return dict(schemas.fill_defaults(pruned, schema))
        return dict(pruned)


def _not_decoded(resource: Resource, why: str) -> problems.Problem:
    text = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
    return problems.bad_request(f"{text}: {why}")


def _not_typed(info: RequestInfo, why: str) -> problems.Problem:
    """An applied configuration that does not fit its schema; kubectl-sky explains the message."""
    kind = f"{info.resource.group}/{info.resource.version}, Kind={info.resource.kind}"
    path = f"{info.namespace}/{info.name}"
    text = f"failed to create typed patch object ({path}; {kind}): .{why}"
    return problems.Problem(500, "", text)


def decode(body: bytes) -> Any:
    """Decode JSON. Raises ValueError."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def parse_query(text: bytes) -> dict[str, str]:
    """Parse a query; the first of repeated parameters counts."""
    query: dict[str, str] = {}
    for name, value in parse_qsl(text.decode(), keep_blank_values=True):
        query.setdefault(name, value)
    return query


def parse_path(path: str, resources: Resources) -> RequestInfo:
    """Parse the path of a resource. Raises Problem."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group = ""
        version = parts[1]
        rest = parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group = parts[1]
        version = parts[2]
        rest = parts[3:]
    else:
        raise problems.no_path()

    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] != "status":
        namespace = rest[1]
        rest = rest[2:]

    resource = resources.find(group, version, rest[0])
    name, subresource = [*rest[1:], "", ""][:2]
    cluster_scoped = namespace and not resource.namespaced
    if len(rest) > 3 or cluster_scoped or (name and resource.namespaced and not namespace):
        raise problems.no_path()
    return RequestInfo(resource, namespace, name, subresource)


def check_options(query: Mapping[str, str]) -> None:
    """Refuse invalid options of a query. Raises Problem."""
    causes = [
        validation.not_supported(name, query[name], supported)
        for name, supported in _SUPPORTED.items()
        if query.get(name) and query[name] not in supported
    ]
    if causes:
        raise problems.invalid("Options.meta.k8s.io", "", causes)


def continue_token(namespace: str, name: str, version: str) -> str:
    return urlsafe_b64encode("\0".join((namespace, name, version)).encode()).decode()


def read_continue_token(token: str) -> list[str]:
    """Decode a continue token: namespace, name, version."""
    return urlsafe_b64decode(token.encode()).decode().split("\0")
