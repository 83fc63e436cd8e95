"""Requests to other servers than the API server: one answer, within a limit of time."""

import http.client
import urllib.request
from urllib.error import HTTPError, URLError

from kubectl_sky import __version__
from kubectl_sky.cluster import parallel
from kubectl_sky.errors import SkyError

_SECONDS = 10.0  # time limit, from name resolution to the status of the answer


def send(method: str, url: str, body: bytes | None = None) -> tuple[int, str]:
    """Send a request; return the status of the answer and its Location. No redirect is followed.

    Raises SkyError with the reason, which never has the URL: its path may be a secret.
    """
    headers = {"User-Agent": f"kubectl-sky/{__version__}"}
    if body is not None:
        headers["Content-Type"] = "application/json"
    request = urllib.request.Request(url, body, headers, method=method)
    # The time limits of sockets are for each read: a server that sends a byte now and then, or a
    # resolver, would take longer.
    try:
        return parallel.run_future(_send, request, name="web").result(_SECONDS)
    except TimeoutError:
        raise SkyError(f"no answer within {_SECONDS:g} seconds") from None


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow no redirect: it could lead to plain http."""

    def redirect_request(self, *args: object, **options: object) -> None:
        return None


def _send(request: urllib.request.Request) -> tuple[int, str]:
    handlers: list[urllib.request.BaseHandler] = [_Redirects()]
    if request.type == "http":  # this machine: not through a proxy
        handlers.append(urllib.request.ProxyHandler({}))
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=_SECONDS) as answer:
            return answer.status, ""
    except HTTPError as error:
        with error:
            return error.code, error.headers.get("Location") or ""
    except TimeoutError:
        raise
    except URLError as error:
        reason = error.reason
        text = reason.strerror if isinstance(reason, OSError) else None
        raise SkyError(text or str(reason)) from None
    except OSError as error:
        raise SkyError(error.strerror or type(error).__name__) from None
    except (http.client.HTTPException, ValueError) as error:  # their texts may quote the URL
        raise SkyError(type(error).__name__) from None
