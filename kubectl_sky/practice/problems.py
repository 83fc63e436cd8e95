"""What the API refuses, in the words of the real server."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass
class Problem(Exception):
    """An answer that is not the one that was asked for: a Status with its HTTP code."""

    code: int
    reason: str
    message: str
    details: Json = field(default_factory=dict)

    def __str__(self) -> str:
        return self.message

    def status(self) -> Json:
        """Return it as the object that the API answers."""
        body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        if self.details:
            body["details"] = self.details
        reason = {"reason": self.reason} if self.reason else {}
        return {**body, "message": self.message, **reason, "code": self.code}


@dataclass(frozen=True)
class Cause:
    """One thing that is wrong with a field of an object."""

    reason: str
    field: str
    message: str


def _details(resource: str, name: str, kind: str = "") -> Json:
    plural, _, group = resource.partition(".")
    found = {"name": name, "group": group, "kind": kind or plural}
    return {key: value for key, value in found.items() if value}


def not_found(resource: str, name: str) -> Problem:
    """`resource` is a plural with its group, as `jobs.batch`."""
    message = f'{resource} "{name}" not found'
    return Problem(404, "NotFound", message, _details(resource, name))


def no_path() -> Problem:
    """Nothing is served there; the real server answers with plain text."""
    return Problem(404, "", "404 page not found\n")


def no_resource() -> Problem:
    """Nothing is served there, but below it are the kinds of a group."""
    return Problem(404, "NotFound", "the server could not find the requested resource")


def exists(resource: str, name: str) -> Problem:
    """An object of the name is there already."""
    message = f'{resource} "{name}" already exists'
    return Problem(409, "AlreadyExists", message, _details(resource, name))


def conflict(resource: str, name: str, why: str) -> Problem:
    """The request was right for what the object was before."""
    message = f'Operation cannot be fulfilled on {resource} "{name}": {why}'
    return Problem(409, "Conflict", message, _details(resource, name))


def modified(resource: str, name: str) -> Problem:
    """Somebody was faster."""
    why = "the object has been modified; please apply your changes to the latest version"
    return conflict(resource, name, f"{why} and try again")


def field_conflicts(causes: Sequence[Cause]) -> Problem:
    """Fields of a server-side apply that belong to others."""
    count = f"{len(causes)} conflict{'s' * (len(causes) > 1)}"
    managers: dict[str, list[str]] = {}
    for cause in causes:
        managers.setdefault(cause.message, []).append(cause.field)
    if len(causes) == 1:
        text = f": {causes[0].message}: {causes[0].field}"
    else:
        parts = [
            f"{message}:" + "".join(f"\n- {path}" for path in paths)
            for message, paths in managers.items()
        ]
        text = "s: " + "\n".join(parts)
        count = f"{len(causes)} conflict"
    message = f"Apply failed with {count}{text}"
    return Problem(409, "Conflict", message, {"causes": _causes(causes)})


def invalid(kind: str, name: str, causes: Sequence[Cause]) -> Problem:
    """Fields with wrong values; `kind` has its group, as `Job.batch`."""
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    plain, _, group = kind.partition(".")
    details = {"name": name, "group": group, "kind": plain, "causes": _causes(causes)}
    details = {key: value for key, value in details.items() if value}
    return Problem(422, "Invalid", f'{kind} "{name}" is invalid: {text}', details)


def _causes(causes: Sequence[Cause]) -> list[Json]:
    return [
        {"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes
    ]


def untyped(where: str, why: str) -> Problem:
    """What is applied does not fit the schema of its kind."""
    return Problem(500, "", f"failed to create typed patch object ({where}): {why}")


def bad_request(message: str) -> Problem:
    """The request itself is wrong."""
    return Problem(400, "BadRequest", message)


def forbidden(resource: str, name: str, why: str) -> Problem:
    """Not allowed, by RBAC or by an admission plugin such as a quota."""
    named = f' "{name}"' if name else ""
    message = f"{resource}{named} is forbidden: {why}"
    return Problem(403, "Forbidden", message, _details(resource, name))


def unauthorized() -> Problem:
    """No token that is known."""
    return Problem(401, "Unauthorized", "Unauthorized")


def expired(version: int, oldest: int) -> Problem:
    """The history does not reach back so far."""
    return Problem(410, "Expired", f"too old resource version: {version} ({oldest})")


def not_allowed() -> Problem:
    """The path is served, the verb is not."""
    message = "the server does not allow this method on the requested resource"
    return Problem(405, "MethodNotAllowed", message)


def unsupported(content_type: str, known: Sequence[str]) -> Problem:
    """A body in a form that is not read here."""
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        f"{', '.join(known)}"
    )
    return Problem(415, "UnsupportedMediaType", message)
