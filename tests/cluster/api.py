"""One request to the API server of this machine's cluster, while that still starts."""

import json
import ssl
import urllib.request
from http import HTTPStatus
from typing import Any
from urllib.error import HTTPError

from tests.cluster.place import Place


def request(place: Place, method: str, where: str, body: object = None) -> dict[str, Any]:
    """Ask the API server, as its administrator. Raises OSError when it does not say yes."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": "Bearer test-token", "Content-Type": "application/json"}
    if method == "PATCH":
        headers["Content-Type"] = "application/merge-patch+json"
    url = f"https://127.0.0.1:{place.ports.api}{where}"
    context = ssl._create_unverified_context()  # it makes its certificate as it starts
    outgoing = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(outgoing, timeout=5, context=context) as answer:
        text = answer.read()
    return json.loads(text) if text.startswith(b"{") else {}


def create(place: Place, where: str, body: object) -> bool:
    """Create an object, and say whether it is there. Raises OSError without an answer."""
    try:
        request(place, "POST", where, body)
    except HTTPError as error:
        with error:
            return error.code == HTTPStatus.CONFLICT
    return True
