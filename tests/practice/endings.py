"""How Jobs end, as their status tells it."""

from tests.practice.world import Json

Condition = tuple[str, str, str, str]  # type, status, reason and message of a condition


def conditions(obj: Json) -> list[Condition]:
    names = ("type", "status", "reason", "message")
    entries = obj["status"].get("conditions", [])
    return [tuple(entry[name] for name in names) for entry in entries]


def counts(obj: Json) -> Json:
    return {key: value for key, value in obj["status"].items() if isinstance(value, int | str)}


def complete(kind: str) -> Condition:
    return (kind, "True", "CompletionsReached", "Reached expected number of succeeded pods")


def failed(reason: str, message: str) -> list[Condition]:
    return [(kind, "True", reason, message) for kind in ("FailureTarget", "Failed")]


BACKOFF = failed("BackoffLimitExceeded", "Job has reached the specified backoff limit")
