"""What every controller gets when it registers its handlers."""

from dataclasses import dataclass
from datetime import timedelta

import kopf

from kubectl_sky.cluster.session import Session
from kubectl_sky.words.settings import Settings


@dataclass(frozen=True)
class Context:
    """The connection and the settings of one process of controllers.

    `session` blocks: call it by `asyncio.to_thread`. `namespace` None means all namespaces.
    `operator` are kopf's settings; a controller adds a label selector per kind, so that the API
    server sends only what the controller needs. Finished tasks are kept for `retention`; None means
    for ever.
    """

    session: Session
    namespace: str | None
    settings: Settings
    operator: kopf.OperatorSettings
    retention: timedelta | None = None
