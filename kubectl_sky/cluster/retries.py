"""When a request is sent again: the rules, on top of urllib3's counting, backoff and jitter."""

from typing import Any, Self

from urllib3.exceptions import ReadTimeoutError
from urllib3.util.retry import Retry

_MERGE = frozenset({"application/json-patch+json"})  # may add to a list twice
_REPEATABLE = frozenset({"GET", "HEAD", "PUT", "DELETE", "PATCH"})
_NONE = frozenset({"none"})  # urllib3 takes an empty set for all
_BUSY = 429
_FAILED = 500
_AWAY = frozenset({502, 503, 504})


class Retries(Retry):
    """Five tries within some seconds.

    A request that never left is always tried again, one that may have been acted upon only if
    doing it twice is doing it once. 429 means that nothing was done, whatever the method. 500 is
    tried again for reads only, as server-side apply answers 500 to a field that does not exist.
    """

    @classmethod
    def standard(cls, content_type: str, *, repeatable: bool = True) -> Self:
        """The rules for a request with a body of this type, or one that must not be done twice."""
        methods = _REPEATABLE - ({"PATCH"} if content_type in _MERGE else set())
        return cls(
            total=5,
            connect=3,
            other=0,  # a certificate does not get better
            allowed_methods=methods if repeatable else _NONE,
            backoff_factor=0.2,
            backoff_max=5,
            backoff_jitter=0.2,
            retry_after_max=30,
            raise_on_status=False,
        )

    def is_retry(self, method: str, status_code: int, has_retry_after: bool = False) -> bool:
        """Say whether an answer with this status is worth another try."""
        if not self.total:
            return False
        if status_code == _BUSY or (has_retry_after and status_code >= _FAILED):
            return True
        repeatable = self.allowed_methods is None or method.upper() in self.allowed_methods
        return repeatable and (status_code in _AWAY or (status_code == _FAILED and method == "GET"))

    def increment(self, *args: Any, **kwargs: Any) -> Self:  # noqa: ANN401 - as in urllib3
        """Count a failure. A server that kept silent for the whole limit is not asked again."""
        error = kwargs.get("error")
        if isinstance(error, ReadTimeoutError):
            raise error
        return super().increment(*args, **kwargs)
