"""Deployments of the graph: the image of the Ray cluster has this file as `fruit.py`."""

from ray.serve.handle import DeploymentHandle
from starlette.requests import Request


class Price:
    """A price, with a factor that changes without a restart."""

    def __init__(self, base: int = 1) -> None:
        self.base = base
        self.factor = 1

    def reconfigure(self, config: dict[str, int]) -> None:
        """Take the user config."""
        self.factor = config["factor"]

    def __call__(self, count: int) -> int:
        """Return the price of some fruit."""
        return self.base * self.factor * count


class Market:
    """The ingress: it gets a handle for each edge of the graph."""

    def __init__(self, price: DeploymentHandle) -> None:
        self.price = price

    async def __call__(self, request: Request) -> dict[str, int]:
        """Answer GET /market?count=3."""
        count = int(request.query_params["count"])
        return {"price": await self.price.remote(count)}
