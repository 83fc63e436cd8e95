"""A request to the API: its parts, and what is wrong with them."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from urllib.parse import parse_qsl

from kubectl_sky.practice import decoding, options, problems, protobuf, schemas, shapes
from kubectl_sky.practice.access import User
from kubectl_sky.practice.patching import APPLY, Manager
from kubectl_sky.practice.resources import Json, Resource, Resources

_TRUE = ("true", "1", "True")


@dataclass(frozen=True)
class Place:
    """What a path means: a kind, and an object of it or one of its parts."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


@dataclass
class Request:
    """A request whose sender is known. `warnings` are for the sender, beside the answer."""

    user: User
    method: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    warnings: list[str]

    def flag(self, name: str) -> bool:
        """Return a yes or no of the query."""
        return self.query.get(name, "") in _TRUE

    def number(self, name: str) -> int | None:
        """Return a number of the query. Raises Problem."""
        return options.number(name, self.query)

    @property
    def dry_run(self) -> bool:
        """Whether nothing shall happen."""
        return self.query.get("dryRun") == "All"

    @property
    def content_type(self) -> str:
        """The body's type without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip()

    @property
    def as_table(self) -> str:
        """How much of each object a table's rows shall have; empty if no table is wanted."""
        accepted = self.headers.get("accept", "").split(",")[0]
        return self.query.get("includeObject", "Metadata") if "as=Table" in accepted else ""

    @property
    def as_metadata(self) -> bool:
        """Whether the answer shall have no more than its object's metadata."""
        accepted = self.headers.get("accept", "").split(",")[0]
        return "as=PartialObjectMetadata;" in f"{accepted.replace(' ', '')};"

    def read(self, group: str, version: str, kind: str) -> Json:
        """Read the body in any form that there is. Raises Problem."""
        if self.content_type == protobuf.TYPE:
            return protobuf.decode(self.body, group, version, kind)
        known = ("application/json", "application/yaml", protobuf.TYPE)
        if self.content_type not in (*known, ""):
            raise problems.unsupported(self.content_type, known)
        found: Json = decoding.read(self.body, self.content_type, kind)
        return found

    def read_applied(self) -> Json:
        """Read what is to be applied. Raises Problem."""
        try:
            found = decoding.yaml_value(self.body)
        except ValueError as error:
            text = f"error decoding YAML: error converting YAML to JSON: {error}"
            raise problems.bad_request(text) from None
        return found if isinstance(found, dict) else {}

    def manager(self, place: Place) -> Manager:
        """Return who writes."""
        agent = self.headers.get("user-agent", "").partition("/")[0] or "unknown"
        name = self.query.get("fieldManager") or agent
        return Manager(name, place.resource, place.subresource, self.flag("force"))

    def object(self, place: Place, body: Json | None = None) -> Json:
        """Return the object that was sent, which fits its path and its kind. Raises Problem."""
        resource = place.resource
        if body is None:
            body = self.read(resource.group, resource.version, resource.kind)
        wanted = (resource.api_version, resource.kind)
        given = (body.get("apiVersion") or wanted[0], body.get("kind") or wanted[1])
        if given[0] != wanted[0]:
            text = (
                f"the API version in the data ({given[0]}) does not match the expected API version"
            )
            raise problems.bad_request(f"{text} ({wanted[0]})")
        if given[1] != wanted[1]:
            text = (
                f'{given[1]} in version "{resource.version}" cannot be handled as a {resource.kind}'
            )
            raise problems.bad_request(text)
        body = self._known(body, resource)
        metadata = body.setdefault("metadata", {})
        if self.method == "PUT" and not metadata.get("name"):
            text = f"the name of the object ({place.name} based on URL) was undeterminable"
            raise problems.bad_request(f"{text}: name must be provided")
        if place.name and metadata.setdefault("name", place.name) != place.name:
            text = f"the name of the object ({metadata['name']}) does not match the name on the URL"
            raise problems.bad_request(f"{text} ({place.name})")
        if metadata.get("namespace", place.namespace) != place.namespace:
            text = "the namespace of the provided object does not match the namespace sent on the"
            raise problems.bad_request(f"{text} request")
        return body

    def _known(self, body: Json, resource: Resource) -> Json:
        """Return an object without fields that its kind does not have; tell or refuse them."""
        schema = schemas.root(resource)
        mode = self.query.get("fieldValidation") or "Warn"
        twice = decoding.repeated(self.body) if self.content_type == "application/json" else ()
        found = [f'duplicate field "{path}"' for path in twice]
        found += [f'unknown field "{path}"' for path in sorted(shapes.unknown(body, schema))]
        if found and mode == "Strict":
            text = f"strict decoding error: {', '.join(found)}"
            raise shapes.not_decoded(resource, text)
        if mode == "Warn":
            self.warnings += found
        body = shapes.pruned(body, schema)
        if resource.custom:  # what is applied is its manager's own, and defaults are nobody's
            return body if self.content_type == APPLY else dict(shapes.defaulted(body, schema))
        why = shapes.mistyped(body, resource)
        if why and self.method == "PATCH" and self.content_type != APPLY:
            text = f"Invalid value: {json.dumps(json.dumps(body))}: {why}"
            raise problems.invalid("", "", [problems.Cause("FieldValueInvalid", "patch", text)])
        if why:
            raise shapes.not_decoded(resource, why)
        return body


def query(text: bytes) -> dict[str, str]:
    """Read a query; of a parameter given twice the first counts, but for `command`."""
    found: dict[str, str] = {}
    for name, value in parse_qsl(text.decode(), keep_blank_values=True):
        found.setdefault(name, value)
    return found


def place(path: str, resources: Resources) -> Place:
    """Read a path of objects. Raises Problem."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise problems.no_path()
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] != "status":
        namespace, rest = rest[1], rest[2:]
    resource = resources.find(group, version, rest[0])
    if len(rest) > 3 or (namespace and not resource.namespaced):
        raise problems.no_path()
    name, subresource = [*rest[1:], "", ""][:2]
    if name and resource.namespaced and not namespace:
        raise problems.no_path()
    return Place(resource, namespace, name, subresource)


def continue_token(namespace: str, name: str, version: str) -> str:
    """Say from where a list goes on."""
    return urlsafe_b64encode("\0".join((namespace, name, version)).encode()).decode()


def read_continue(token: str) -> list[str]:
    """Read what `continue_token` wrote: namespace, name, version. Raises Problem."""
    try:
        parts = urlsafe_b64decode(token.encode()).decode().split("\0")
    except (ValueError, UnicodeError):
        parts = []
    if len(parts) != 3:
        raise problems.bad_request("invalid continue token: continue key is not valid")
    return parts
