"""A Hub like Hugging Face's, as far as files are copied from it: `python hub.py ADDRESS`.

It has models, a private dataset, and a bucket. What is large is at another address, which must not
be told the token, and where each file breaks off the first time.
"""

import hashlib
import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

TOKEN = "hf_s3cr3t"
LARGE = b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(60_000))
MODEL = {
    "config.json": b'{"a": 1}\n',
    "model.safetensors": LARGE,
    "onnx/deep/a b#?.txt": b"odd\n",
    "onnx/x.txt": b"",
}
PARTS = {f"{number}.txt": b"%d\n" % number for number in range(7)}
FILES = {
    "models/org/model/main": MODEL,
    "models/org/model/refs/pr/1": {"config.json": b"of the request\n"},
    "datasets/org/private/v 1": {f"part/{name}": data for name, data in PARTS.items()},
    "buckets/me/box": {"logs/a": b"in a bucket\n", "logs2": b"not this\n"},
    "models/org/evil/main": {"../../out": b"x"},
    "models/org/damaged/main": {"model.safetensors": LARGE[:-1] + b"?"},
}
_PAGE = 3
_TREE = re.compile(r"/api/(buckets/[^/]+/[^/]+|\w+/[^/]+/[^/]+/[^/]+)(?:/([^/]+))?")
_FILE = re.compile(r"/(buckets/[^/]+/[^/]+|(?:datasets/)?[^/]+/[^/]+/[^/]+)/(.+)")


class _Answers(BaseHTTPRequestHandler):
    """What the Hub and the other address have in common."""

    server: "Server"

    @property
    def known(self) -> str | None:
        return self.headers.get("Authorization")

    def answer(self, code: int, body: bytes = b"{}", **headers: str) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    """One of the two; `other` is the address of the other, `broken` is what has broken off."""

    other = ""

    def __init__(self, address: str, handler: type[_Answers]) -> None:
        super().__init__((address, 0), handler)
        self.broken: set[str] = set()
        self.url = f"http://{address}:{self.server_port}"


class _Hub(_Answers):
    def do_GET(self) -> None:
        url = urlsplit(self.path)
        tree = url.path.startswith("/api/")
        path = url.path.replace("/tree", "", 1) if tree else url.path.replace("/resolve", "", 1)
        match = (_TREE if tree else _FILE).fullmatch(path)
        assert match, url.path
        place, name = (unquote(part or "") for part in match.groups())
        if not tree and not place.startswith(("datasets/", "buckets/")):
            place = f"models/{place}"
        files = FILES.get(place)
        private = "private" in place and self.known != f"Bearer {TOKEN}"

        if files is None or private:
            code = 401 if private else 404
            self.answer(code, X_Error_Message="Repository not found")
        elif tree:
            self._tree(place, files, name, parse_qs(url.query))
        elif len(files[name]) > 1000:
            self.answer(302, Location=f"{self.server.other}/{quote(place)}/{name}")
        else:
            self.answer(200, files[name])

    def _tree(self, place: str, files: dict[str, bytes], path: str, query: Any) -> None:
        below = f"{path}/" if path else ""
        inside = {name: data for name, data in files.items() if name.startswith(below)}
        if place.startswith("buckets/") and path in files:
            inside[path] = files[path]

        if not inside:
            self.answer(404, X_Error_Message=f"{path} does not exist")
            return

        entries = [_entry(name, data) for name, data in sorted(inside.items())]
        if query["recursive"] == ["false"]:
            names = {entry["path"][len(below) :] for entry in entries}
            folders = {name.split("/")[0] for name in names if "/" in name}
            entries = [entry for entry in entries if "/" not in entry["path"][len(below) :]]
            entries += [{"type": "directory", "path": below + name} for name in folders]

        begin = int(query.get("cursor", ["0"])[0])
        end = begin + _PAGE
        again = f"{self.server.url}{urlsplit(self.path).path}?recursive={query['recursive'][0]}"
        more = {"Link": f'<{again}&cursor={end}>; rel="next"'} if len(entries) > end else {}
        page = json.dumps(entries[begin:end]).encode()
        self.answer(200, page, **more)


class _Large(_Answers):
    def do_GET(self) -> None:
        place, _, name = unquote(self.path)[1:].rpartition("/")
        data = FILES[place][name]
        begin = int((self.headers.get("Range") or "bytes=0-")[6:-1])
        if self.known:
            self.answer(400, X_Error_Message="the token is for the Hub alone")
        elif self.path in self.server.broken:
            code = 206 if begin else 200
            self.answer(code, data[begin:])
        else:
            self.server.broken.add(self.path)
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: len(data) // 2])


def _entry(name: str, data: bytes) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "file", "path": name, "size": len(data), "oid": "0" * 40}
    if len(data) > 1000:
        entry["lfs"] = {"oid": hashlib.sha256(LARGE).hexdigest(), "size": len(data)}
    return entry


def serve(address: str) -> tuple[Server, Server]:
    """Return the server of the Hub and that of its large files, which listen and do not answer."""
    hub = Server(address, _Hub)
    large = Server(address, _Large)
    hub.other = large.url
    return hub, large


if __name__ == "__main__":
    servers = serve(sys.argv[1])
    Thread(target=servers[1].serve_forever, daemon=True).start()
    sys.stdout.write(f"{servers[0].url}\n")
    sys.stdout.flush()
    servers[0].serve_forever()
