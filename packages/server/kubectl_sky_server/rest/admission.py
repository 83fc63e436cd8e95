"""When a token that no review has accepted yet is reviewed: no address waits for another one.

At an address, tokens of an issuer whose tokens were accepted go first, then other JSON Web Tokens.
"""

import asyncio
import ipaddress
import json
from base64 import urlsafe_b64decode
from enum import IntEnum
from time import time

import anyio.to_thread
from anyio import CapacityLimiter
from starlette.requests import HTTPConnection

from kubectl_sky.errors import Unauthorized
from kubectl_sky_server.rest.config import Config
from kubectl_sky_server.rest.identity import Caller, Credential, Identities
from kubectl_sky_server.rest.limits import Turns

_MAX_ISSUERS = 100
_IPV6_NETWORK = 64  # one host may have all addresses of it


class _Form(IntEnum):
    """What a token looks like: each form has turns and threads of its own."""

    UNKNOWN = 0
    JWT = 1
    KNOWN_ISSUER = 2


class Admission:
    """The reviews of credentials: of new tokens few at the same time, and few wrong ones a second.

    Those who wait have no thread, so that they never delay callers whose token is known.
    """

    def __init__(self, config: Config, identities: Identities) -> None:
        self._identities = identities
        self._behind_proxy = config.behind_proxy
        self._turns = Turns(config.limits.wrong_tokens_per_second)
        self._threads = {form: CapacityLimiter(config.limits.reviews) for form in _Form}
        self._issuers: set[str] = set()  # of tokens that were accepted

    async def admit(self, connection: HTTPConnection, credential: Credential) -> Caller:
        """Return the caller with a credential. Raises Unauthorized, ClusterError, Rejected."""
        if self._identities.knows(credential):
            return await anyio.to_thread.run_sync(credential.review)

        issuer = _issuer(credential.token)
        form = self._form(issuer)
        key = f"{form} {self._address(connection)}"
        await asyncio.sleep(self._turns.take(key))
        is_wrong = False
        try:
            caller = await anyio.to_thread.run_sync(credential.review, limiter=self._threads[form])
        except Unauthorized:
            is_wrong = True
            raise
        finally:
            if not is_wrong:
                self._turns.give_back(key)

        if issuer and len(self._issuers) < _MAX_ISSUERS:
            self._issuers.add(issuer)
        return caller

    def _form(self, issuer: str) -> _Form:
        if issuer in self._issuers:
            return _Form.KNOWN_ISSUER
        return _Form.JWT if issuer else _Form.UNKNOWN

    def _address(self, connection: HTTPConnection) -> str:
        """Return the network of a client, which the proxy adds to what the client has sent."""
        address = connection.client.host if connection.client else ""
        forwarded = ",".join(connection.headers.getlist("x-forwarded-for"))
        if self._behind_proxy and forwarded:
            address = forwarded.rpartition(",")[2].strip()
        try:
            version = ipaddress.ip_address(address).version
        except ValueError:
            return address[:_IPV6_NETWORK]
        if version == 4:
            return address
        return str(ipaddress.ip_network((address, _IPV6_NETWORK), strict=False))


def _issuer(token: str) -> str:
    """Return the issuer that a JSON Web Token names until it expires; else an empty text."""
    header, _, rest = token.partition(".")
    payload, _, signature = rest.partition(".")
    if not (header and signature):
        return ""
    try:
        claims = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        is_valid = float(claims["exp"]) > time()
        return str(claims["iss"]) if is_valid else ""
    except (ArithmeticError, ValueError, TypeError, KeyError, RecursionError):
        return ""
