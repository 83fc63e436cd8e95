"""Places on Hugging Face's Hub, as what follows `hf://` names them."""

import re
from dataclasses import dataclass
from urllib.parse import unquote

EXAMPLES = "hf://OWNER/MODEL, hf://datasets/OWNER/NAME@REVISION/PATH or hf://buckets/OWNER/NAME"
BUCKETS = "buckets"  # which have no revisions

_PLACE = re.compile(
    r"((?P<kind>datasets|spaces|buckets)/)?"
    r"(?P<name>(?!(datasets|spaces|buckets)/)\w[\w.-]*/\w[\w.-]*)"
    r"(@(?P<revision>refs/(convert|pr)/[^/]+|[^/]+))?(/(?P<path>.*))?",
    re.ASCII | re.DOTALL,
)


@dataclass(frozen=True)
class Place:
    """A repository or bucket by OWNER/NAME, a revision of it, and a folder or file in it.

    `kind` is models, datasets, spaces or buckets, as the Hub's own addresses have it.
    """

    kind: str
    name: str
    revision: str
    path: str


def place(text: str) -> Place | None:
    """Return what is named, or None where it is none of the Hub's."""
    found = _PLACE.fullmatch(text)
    if not found:
        return None
    kind, revision = found["kind"] or "models", found["revision"]
    path = (found["path"] or "").rstrip("/")
    wrong = {"", ".", ".."}.intersection(path.split("/")) if path else ()
    if wrong or (kind == BUCKETS and revision) or not path.isprintable():
        return None
    return Place(kind, found["name"], unquote(revision or "main"), path)
