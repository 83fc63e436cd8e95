"""Bodies of requests: JSON that the API server may read as YAML too, as it does to apply."""

import json
import re

# Either two escapes for one character, or any other one, which is passed over as a whole.
_ESCAPE = re.compile(r"\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})|\\.")


def encoded(body: object) -> bytes:
    """Return a body as JSON in ASCII, but for characters that JSON escapes by two surrogates.

    YAML refuses surrogates, and reads such characters, emoji for one, only as they are. All others
    stay escaped: YAML would take some of them for line breaks, and refuse others.
    """
    return _ESCAPE.sub(_character, json.dumps(body, separators=(",", ":"))).encode()


def _character(found: re.Match[str]) -> str:
    if found[1] is None:
        return found[0]
    return bytes.fromhex(found[1] + found[2]).decode("utf-16-be")
