"""Deployments as an image of a user has them: classes, a decorated class and a function."""

from typing import Any

from ray import serve


class Price:
    def __init__(self, base: int = 1) -> None:
        self.base = base
        self.factor = 1

    def reconfigure(self, config: dict[str, int]) -> None:
        self.factor = config["factor"]

    def __call__(self, count: int) -> int:
        return self.base * self.factor * count


@serve.deployment(num_replicas=2)
class Stand:
    def __init__(self, price: Any) -> None:
        self.price = price

    async def __call__(self, count: int) -> int:
        price: int = await self.price.remote(count)
        return price


class Market:
    def __init__(self, mango: Any, pear: Any) -> None:
        self.stands = {"mango": mango, "pear": pear}

    async def __call__(self, request: Any) -> dict[str, int]:
        count = int(request.query_params["count"])
        return {name: await stand.remote(count) for name, stand in self.stands.items()}


def hello(request: Any) -> str:
    return "hello"
