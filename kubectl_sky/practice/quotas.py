"""Keeps count of what the ResourceQuotas limit."""

from collections.abc import Iterator

from kubectl_sky.practice import quantities
from kubectl_sky.practice.api import Api
from kubectl_sky.practice.controller import Controller
from kubectl_sky.practice.quota import OVER, used_by
from kubectl_sky.practice.state import Change, Key
from kubectl_sky.practice.state import key as key_of

_PAUSE = 0.1  # seconds in which changes are counted together


def _ended(change: Change) -> bool:
    ends = [(one or {}).get("status", {}).get("phase") for one in (change.object, change.before)]
    return change.storage == "pods" and ends[0] in OVER and ends[1] not in OVER


class Quotas(Controller):
    """Keeps the counts in the status of each ResourceQuota."""

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self.replay("resourcequotas")

    def keys(self, change: Change) -> Iterator[Key]:
        """A quota, or those of the namespace of an object that came or went, or of a pod."""
        if change.storage == "resourcequotas":
            yield change.key
        elif change.type != "MODIFIED" or _ended(change):
            for quota in self.api.state.all("resourcequotas", change.key[0] or "-"):
                self.enqueue_after(key_of(quota), _PAUSE)

    def reconcile(self, key: Key) -> None:
        """Write down how much is used."""
        quota = self.api.state.get("resourcequotas", *key)
        if not quota:
            return
        hard = quantities.amounts(quota["spec"].get("hard"))
        used = used_by(self.api.state, quota, hard)
        status = {
            "hard": {name: str(amount) for name, amount in hard.items()},
            "used": {name: str(used[name]) for name in hard},
        }
        self.api.change("resourcequotas", key, lambda quota: quota.update(status=status))
