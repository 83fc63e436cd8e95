"""Fair share of a Volcano queue: which PriorityClass a task gets."""

from kubectl_sky.words import names
from kubectl_sky.words.settings import Settings

DEFAULT_QUEUE = "default"  # Volcano's queue for PodGroups that name none
PER_USER = "user"
LABEL = "kubectl-sky/fair-share"  # of our PriorityClasses, and of the journal
QUEUE = "kubectl-sky/fair-share-queue"  # annotation of a class
PREFIX = "fair-share-"  # of the names of our classes
_PART = 24  # characters of a queue or an owner in the name of a class


def class_name(queue: str, owner: str) -> str:
    """Return the PriorityClass of an owner in a queue: readable, and unique by its hash."""
    from hashlib import sha256  # noqa: PLC0415 -- loads OpenSSL, which most commands do not need

    digest = sha256(f"{queue}\0{owner}".encode()).hexdigest()[:10]
    parts = (names.dns_label(text, "x")[:_PART].strip("-") for text in (queue, owner))
    return PREFIX + "-".join((*parts, digest))


def priority_class(settings: Settings, queue: str | None, user: str, namespace: str) -> str | None:
    """Return the PriorityClass of a user's task in a queue; None without fair share."""
    queue = queue or DEFAULT_QUEUE
    fields = settings.fair_share.get(queue)
    if fields is None:
        return None
    owner = user if fields.get("per", PER_USER) == PER_USER else namespace
    return class_name(queue, owner)
