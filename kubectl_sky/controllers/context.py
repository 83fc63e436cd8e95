"""What every controller gets."""

from dataclasses import dataclass
from datetime import timedelta

from kubectl_sky.cluster.session import Session
from kubectl_sky.words.settings import Settings


@dataclass(frozen=True)
class Context:
    """The connection and the settings of one process of controllers.

    `namespace` None means all namespaces. Finished tasks are kept for `retention`; None means for
    ever.
    """

    session: Session
    namespace: str | None
    settings: Settings
    retention: timedelta | None = None
