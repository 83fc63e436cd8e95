"""Answer with the documents that endpoints return, and describe them in the OpenAPI."""

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import iscoroutinefunction, signature
from typing import Any, get_args

import msgspec
from fastapi import Response
from fastapi.routing import APIRoute
from msgspec import Struct
from starlette.routing import BaseRoute

from kubectl_sky.words import documents


class DocumentRoute(APIRoute):
    """A route whose endpoint may return a document: a Struct, or one of several."""

    kinds: tuple[type[Struct], ...] = ()

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        annotation = signature(endpoint).return_annotation
        types = get_args(annotation) or (annotation,)
        kinds = tuple(kind for kind in types if isinstance(kind, type) and issubclass(kind, Struct))
        if kinds:
            self.kinds = kinds
            endpoint = _encoding(endpoint)
            options["response_model"] = None
            options["responses"] = (options.get("responses") or {}) | {200: describe(*kinds)}
        super().__init__(path, endpoint, **options)


def deleting(kind: type[Struct]) -> dict[int | str, dict[str, Any]]:
    """Return the additional response of operations that delete: something still exists."""
    return {202: {"description": "Being deleted; something still exists"} | describe(kind)}


def _encoding(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(endpoint)
    def encode_result(*args: object, **kwargs: object) -> Response:
        answer = endpoint(*args, **kwargs)
        return answer if isinstance(answer, Response) else encode(answer)

    @wraps(endpoint)
    async def encode_awaited(*args: object, **kwargs: object) -> Response:
        return encode(await endpoint(*args, **kwargs))

    return encode_awaited if iscoroutinefunction(endpoint) else encode_result


def encode(document: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(document), status, headers, "application/json")


def describe(*kinds: type[Struct]) -> dict[str, Any]:
    """Return the response of an operation that answers with one of these documents."""
    references = [documents.schemas([kind])[0][0] for kind in kinds]
    schema = {"anyOf": references} if references[1:] else references[0]
    return {"content": {"application/json": {"schema": schema}}}


def components(routes: Iterable[BaseRoute], *others: type[Struct]) -> dict[str, Any]:
    kinds = {kind for route in routes if isinstance(route, DocumentRoute) for kind in route.kinds}
    return documents.schemas({*kinds, *others})[1]
