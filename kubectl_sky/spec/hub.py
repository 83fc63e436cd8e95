"""Parse locations on the Hugging Face Hub: the part of a URL after `hf://`."""

import re
from dataclasses import dataclass
from urllib.parse import unquote

EXAMPLES = "hf://OWNER/MODEL, hf://datasets/OWNER/NAME@REVISION/PATH or hf://buckets/OWNER/NAME"
BUCKETS = "buckets"  # buckets have no revisions

_HUB_PATH = re.compile(
    r"((?P<kind>datasets|spaces|buckets)/)?"
    r"(?P<name>(?!(datasets|spaces|buckets)/)\w[\w.-]*/\w[\w.-]*)"
    r"(@(?P<revision>refs/(convert|pr)/[^/]+|[^/]+))?(/(?P<path>.*))?",
    re.ASCII | re.DOTALL,
)


@dataclass(frozen=True)
class HubPath:
    """A repository or bucket by OWNER/NAME, its revision, and a folder or file in it.

    `kind` is models, datasets, spaces or buckets, as in the Hub's own URLs.
    """

    kind: str
    name: str
    revision: str
    path: str


def hub_path(text: str) -> HubPath | None:
    """Parse a location; return None if it is not valid on the Hub."""
    match = _HUB_PATH.fullmatch(text)
    if not match:
        return None
    kind, revision = match["kind"] or "models", match["revision"]
    path = (match["path"] or "").rstrip("/")
    invalid_parts = {"", ".", ".."}.intersection(path.split("/")) if path else ()
    if invalid_parts or (kind == BUCKETS and revision) or not path.isprintable():
        return None
    return HubPath(kind, match["name"], unquote(revision or "main"), path)
