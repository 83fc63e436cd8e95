"""The controller that writes the status of ResourceQuotas."""

from collections.abc import Iterator

from kubectl_sky_practice import quantities
from kubectl_sky_practice.admission import FINISHED, used_by
from kubectl_sky_practice.api import Api
from kubectl_sky_practice.controller import Controller
from kubectl_sky_practice.state import Change, Key
from kubectl_sky_practice.state import key as key_of

_DELAY = 0.1  # seconds in which changes are counted together


class Quotas(Controller):
    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self.replay("resourcequotas")

    def keys(self, change: Change) -> Iterator[Key]:
        phase = (change.object.get("status") or {}).get("phase")
        if change.storage == "resourcequotas":
            yield change.key
        elif change.type != "MODIFIED" or (change.storage == "pods" and phase in FINISHED):
            for quota in self.api.state.all("resourcequotas", change.key[0] or "-"):
                self.enqueue_after(key_of(quota), _DELAY)

    def reconcile(self, key: Key) -> None:
        quota = self.api.state.get("resourcequotas", *key)
        if quota:
            hard = quantities.amounts(quota["spec"].get("hard"))
            used = used_by(self.api.state, quota)
            status = {
                "hard": {name: str(amount) for name, amount in hard.items()},
                "used": {name: str(amount) for name, amount in used.items()},
            }
            self.api.change("resourcequotas", key, lambda quota: quota.update(status=status))
