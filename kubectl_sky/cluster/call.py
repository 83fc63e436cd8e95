"""A request as an error message sees it: method, path, server."""

import re
from urllib.parse import unquote, urlsplit

from kubectl_sky.values import dataclass

_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/))?/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?"
)


@dataclass(frozen=True)
class Call:
    """A request, as far as an error message needs it."""

    method: str
    path: str
    server: str

    @property
    def parts(self) -> dict[str, str]:
        """Group, version, namespace, plural and name, each empty where the path has none."""
        match = _PATH.match(self.path)
        found = match.groupdict() if match else {}
        return {
            key: unquote(found.get(key) or "")
            for key in ("group", "version", "namespace", "plural", "name")
        }

    @property
    def resource(self) -> str:
        """As RBAC writes it: `jobs.batch`."""
        parts = self.parts
        return ".".join(filter(None, (parts["plural"], parts["group"]))) or self.path

    @property
    def host(self) -> str:
        """Host and port of the server."""
        return urlsplit(self.server).netloc or self.server
