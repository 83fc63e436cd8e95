"""SkyPilot's Python names over `kubectl_sky.Client`: `from kubectl_sky import sky`.

docs/from-skypilot.md says what is different. What has no equal raises NotSupportedError.
"""

import logging
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

from kubectl_sky.sky import clouds as clouds
from kubectl_sky.sky import exceptions as exceptions
from kubectl_sky.sky import jobs as jobs
from kubectl_sky.sky import serve as serve
from kubectl_sky.sky.clouds import CLOUD_REGISTRY as CLOUD_REGISTRY
from kubectl_sky.sky.clusters import *  # noqa: F403 -- its __all__
from kubectl_sky.sky.requests import *  # noqa: F403
from kubectl_sky.sky.requests import refuse
from kubectl_sky.sky.states import *  # noqa: F403
from kubectl_sky.sky.tasks import *  # noqa: F403

sky_logging = SimpleNamespace(init_logger=logging.getLogger, silent=nullcontext)
backends = SimpleNamespace(CloudVmRayBackend=object)  # of `launch(backend=…)`, which is ignored


def __getattr__(name: str) -> Any:
    return getattr(clouds, name) if name in clouds.NAMES else refuse(name.replace("_", " "))
