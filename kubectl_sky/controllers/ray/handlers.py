"""kopf handlers of the ray controller."""

import kopf

from kubectl_sky.controllers.context import Context


def register(registry: kopf.OperatorRegistry, context: Context) -> None:
    """Add the handlers of this controller."""
