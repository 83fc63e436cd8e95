"""Connections that send a request's head and body as one piece.

urllib3 sends them apart: two records of TLS, two packets, and a server that wakes up twice.
"""

from typing import Any

import urllib3
from urllib3.connection import HTTPConnection


class _Joined(HTTPConnection):
    """Holds the head of a request back until its body comes, or there is none."""

    _head: bytes | None = None  # None when it is not held back

    def request(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - as in urllib3
        self._head = b""
        try:
            super().request(*args, **kwargs)
            head = self._head
        finally:
            self._head = None
        if head:
            super().send(head)

    def send(self, data: Any) -> None:  # noqa: ANN401 - as in http.client
        if self._head is None:
            super().send(data)
        elif not self._head:
            self._head = data
        else:
            head, self._head = self._head, None
            super().send(head + data)


def joined(manager: urllib3.PoolManager) -> urllib3.PoolManager:
    """Have all connections that a manager is going to make send in one piece; return it.

    They stay what they are beside that: those of a SOCKS proxy go through it.
    """
    pools: dict[str, Any] = manager.pool_classes_by_scheme
    manager.pool_classes_by_scheme = {
        scheme: type(pool.__name__, (pool,), {"ConnectionCls": _joined(pool.ConnectionCls)})
        for scheme, pool in pools.items()
    }
    return manager


def _joined(connection: type[Any]) -> type[Any]:
    return type(connection.__name__, (_Joined, connection), {})
