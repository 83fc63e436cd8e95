"""The lists that viewers follow, and which viewers share one.

The API server has confirmed with each viewer's own token that it may list and watch what is shown,
and does so again every minute. Who may read less has another list.
"""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from time import monotonic

from msgspec import Struct

from kubectl_sky.cluster import parallel
from kubectl_sky.errors import Forbidden
from kubectl_sky.tasks.find import Scope
from kubectl_sky.tasks.live import Rights, review_rights
from kubectl_sky_server.rest.events import REVIEW_SECONDS
from kubectl_sky_server.rest.identity import Caller
from kubectl_sky_server.rest.live import LiveList
from kubectl_sky_server.rest.memory import Memory

_FRESH_SECONDS = 10.0  # a review that several pages of a user share
_SETTLE_SECONDS = 2.0  # after a request of the caller that may change something
_MAX_CALLERS = 10_000  # whose rights are kept


class _Shared(Struct, frozen=True):
    """What all viewers of a list have in common; without complete rights, their token, too."""

    scope: Scope
    rights: Rights
    alone: bytes
    has_token: bool  # the server's own credentials read for nobody else


class LiveLists:
    """The lists of all callers; the first ones are read one after the other."""

    def __init__(self, memory: Memory, clock: Callable[[], float] = monotonic) -> None:
        self._memory = memory
        self._clock = clock
        self._lock = Lock()
        self._turn = Lock()
        self._lists: dict[_Shared, LiveList] = {}
        # By the digest of a token and a scope; the one that was reviewed last is the last.
        self._reviews: OrderedDict[tuple[bytes, Scope], tuple[float, _Shared]] = OrderedDict()
        self._settled_at: OrderedDict[bytes, float] = OrderedDict()

    def open(self, caller: Caller, scope: Scope) -> LiveList:
        """Return the list of a scope, which is followed from now on. Raises SkyError."""
        key = self._review(caller, scope)
        with self._lock:
            self._lists = {key: it for key, it in self._lists.items() if not it.ended.is_set()}
            live = self._lists.get(key)
            if live is None:
                self._memory.check()
                live = LiveList(caller, scope, self._turn, self._memory)
                self._lists[key] = live
                parallel.run_daemon(live.run, name="list")
            return live

    def find(self, caller: Caller, scope: Scope) -> LiveList | None:
        """Return the list of a scope if it is followed, and current. Raises ClusterError."""
        is_settled = self._clock() >= self._settled_at.get(caller.credential, 0.0)
        if not is_settled or scope not in {key.scope for key in list(self._lists)}:
            return None
        live = self._lists.get(self._review(caller, scope))
        return live if live and live.is_current else None

    def settle(self, caller: Caller) -> None:
        """Let the lists of a caller, who may have changed something, catch up."""
        with self._lock:
            self._settled_at[caller.credential] = self._clock() + _SETTLE_SECONDS
            self._settled_at.move_to_end(caller.credential)
            while len(self._settled_at) > _MAX_CALLERS:
                self._settled_at.popitem(last=False)

    def confirm(self, caller: Caller, scope: Scope, live: LiveList) -> None:
        """Raise ClusterError if a viewer of a list may no longer see it."""
        key = self._review(caller, scope, _FRESH_SECONDS)
        if self._lists.get(key) is not live:
            raise Forbidden("the rights of the caller have changed")

    def _review(self, caller: Caller, scope: Scope, seconds: float = REVIEW_SECONDS) -> _Shared:
        """Return what a caller may see, as the API server has said within some seconds."""
        known = self._reviews.get((caller.credential, scope))
        if known and self._clock() < known[0] + seconds:
            return known[1]

        begun_at = self._clock()
        rights = review_rights(caller.session, scope)
        alone = b"" if rights.complete else caller.credential
        shared = _Shared(scope, rights, alone, bool(caller.credential))
        with self._lock:
            self._reviews[caller.credential, scope] = begun_at, shared
            self._reviews.move_to_end((caller.credential, scope))
            while len(self._reviews) > _MAX_CALLERS:
                self._reviews.popitem(last=False)
        return shared
