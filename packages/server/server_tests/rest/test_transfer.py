"""Answers that are compressed, and documents that the client has already."""

import asyncio
import gzip
import zlib
from typing import Any

from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from kubectl_sky_server.rest.transfer import Transfer
from server_tests.rest.conftest import submitted

GZIP = ((b"accept-encoding", b"br, gzip"),)


def sent(
    *parts: bytes, media_type: str = "application/json", headers: Any = GZIP, **scope: str
) -> list[Message]:
    """Return what is sent of an answer of some parts."""
    messages: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        head = [(b"content-type", media_type.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        for number, part in enumerate(parts, 1):
            more = number < len(parts)
            await send({"type": "http.response.body", "body": part, "more_body": more})

    async def keep(message: Message) -> None:
        messages.append(message)

    async def receive() -> Message:
        raise NotImplementedError

    connection = {"type": "http", "method": "GET", "path": "/", "headers": headers} | scope
    asyncio.run(Transfer(app)(connection, receive, keep))
    return messages


def test_documents_are_compressed() -> None:
    text = b'{"task": "hello"}' * 20_000
    head, body = sent(text)
    assert gzip.decompress(body["body"]) == text
    assert (b"content-encoding", b"gzip") in head["headers"]
    assert (b"content-length", str(len(body["body"])).encode()) in head["headers"]


def test_events_can_be_read_as_they_are_sent() -> None:
    _, *bodies = sent(b"event: a\n\n", b"event: b\n\n", b"", media_type="text/event-stream")
    reader = zlib.decompressobj(31)
    parts = [reader.decompress(body["body"]) for body in bodies]
    assert parts == [b"event: a\n\n", b"event: b\n\n", b""]
    assert reader.eof


def test_what_is_short_or_not_accepted_or_of_the_api_server_is_sent_as_it_is() -> None:
    text = b"x" * 10_000
    assert sent(b"{}")[1]["body"] == b"{}"
    assert sent(text, headers=())[1]["body"] == text
    assert sent(text, headers=[(b"accept-encoding", b"gzip;q=0")])[1]["body"] == text
    assert sent(text, media_type="text/plain")[1]["body"] == text
    assert sent(text, path="/kubernetes/api/v1/pods")[1]["body"] == text


def test_list_that_the_client_has_is_not_sent_again(alice: TestClient) -> None:
    first = alice.get("/tasks")
    tag = {"If-None-Match": first.headers["ETag"]}
    same = alice.get("/tasks", headers=tag)
    assert (same.status_code, same.content, same.headers["ETag"]) == (
        304,
        b"",
        tag["If-None-Match"],
    )
    submitted(alice)
    changed = alice.get("/tasks", headers=tag)
    assert changed.status_code == 200
    assert changed.headers["ETag"] != tag["If-None-Match"]
