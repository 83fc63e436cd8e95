"""Refusals of the API: Status objects with their HTTP codes, as apimachinery's `api/errors`."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass
class Problem(Exception):
    code: int
    reason: str
    message: str
    details: Json = field(default_factory=dict)

    def __str__(self) -> str:
        return self.message

    def status(self) -> Json:
        body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        optional = {"details": self.details, "reason": self.reason}
        optional = {key: value for key, value in optional.items() if value}
        return {**body, **optional, "message": self.message, "code": self.code}


@dataclass(frozen=True)
class Cause:
    reason: str
    field: str
    message: str


def _details(resource: str, name: str) -> Json:
    plural, _, group = resource.partition(".")
    details = {"name": name, "group": group, "kind": plural}
    return {key: value for key, value in details.items() if value}


def not_found(resource: str, name: str) -> Problem:
    """`resource` is a plural with its group, as `jobs.batch`."""
    return Problem(404, "NotFound", f'{resource} "{name}" not found', _details(resource, name))


def no_path() -> Problem:
    """A path that is not served; the real server answers with plain text."""
    return Problem(404, "", "404 page not found\n")


def no_resource() -> Problem:
    return Problem(404, "NotFound", "the server could not find the requested resource")


def exists(resource: str, name: str) -> Problem:
    message = f'{resource} "{name}" already exists'
    return Problem(409, "AlreadyExists", message, _details(resource, name))


def conflict(resource: str, name: str, why: str) -> Problem:
    message = f'Operation cannot be fulfilled on {resource} "{name}": {why}'
    return Problem(409, "Conflict", message, _details(resource, name))


def not_owned() -> Problem:
    message = (
        "Apply failed: it changes fields that this field manager did not apply; the practice"
        " cluster does not record their owners, and changes them only with force"
    )
    return Problem(409, "Conflict", message)


def invalid(kind: str, name: str, causes: Sequence[Cause]) -> Problem:
    """Fields with invalid values; `kind` has its group, as `Job.batch`."""
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details = _details(kind, name) | {"causes": [asdict(cause) for cause in causes]}
    return Problem(422, "Invalid", f'{kind} "{name}" is invalid: {text}', details)


def bad_request(message: str) -> Problem:
    return Problem(400, "BadRequest", message)


def forbidden(resource: str, name: str, why: str) -> Problem:
    """Refused by RBAC or by an admission plugin, such as a quota."""
    named = f' "{name}"' if name else ""
    message = f"{resource}{named} is forbidden: {why}"
    return Problem(403, "Forbidden", message, _details(resource, name))


def unauthorized() -> Problem:
    return Problem(401, "Unauthorized", "Unauthorized")


def expired(version: int, oldest: int) -> Problem:
    return Problem(410, "Expired", f"too old resource version: {version} ({oldest})")


def too_new(version: int, current: int) -> Problem:
    text = f"Too large resource version: {version}, current: {current}"
    return Problem(504, "Timeout", text, {"retryAfterSeconds": 1})


def not_allowed() -> Problem:
    message = "the server does not allow this method on the requested resource"
    return Problem(405, "MethodNotAllowed", message)


def unsupported(supported: Sequence[str]) -> Problem:
    message = f"accepted media types include: {', '.join(supported)}"
    return Problem(415, "UnsupportedMediaType", message)
