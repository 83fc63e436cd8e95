"""How Jobs end, as their status tells it."""

from tests.practice.world import Json

Told = tuple[str, str, str, str]  # type, status, reason and message of a condition


def conditions(found: Json) -> list[Told]:
    names = ("type", "status", "reason", "message")
    listed = found["status"].get("conditions", [])
    return [tuple(one[name] for name in names) for one in listed]


def counts(found: Json) -> Json:
    return {key: value for key, value in found["status"].items() if isinstance(value, int | str)}


def complete(kind: str) -> Told:
    return (kind, "True", "CompletionsReached", "Reached expected number of succeeded pods")


def failed(reason: str, message: str) -> list[Told]:
    return [(kind, "True", reason, message) for kind in ("FailureTarget", "Failed")]


BACKOFF = failed("BackoffLimitExceeded", "Job has reached the specified backoff limit")
