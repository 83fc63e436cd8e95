"""The nodes clone a repository at a branch, tag or commit."""

import functools
import subprocess
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.e2e.command import Command


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[tuple[str, list[str]]]:
    """Serve a repository over HTTP; return its URL and the hashes of its three commits."""
    place = tmp_path / "repository"
    place.mkdir()

    def git(*words: str) -> str:
        options = ("-c", "user.name=x", "-c", "user.email=x@y")
        command = ["git", *options, *words]
        return subprocess.run(
            command, cwd=place, check=True, capture_output=True, text=True
        ).stdout.strip()

    git("init", "-q", "-b", "main")
    commits = []
    for number in range(3):
        (place / "number").write_text(f"{number}\n")
        git("add", "number")
        git("commit", "-q", "-m", f"commit {number}")
        commits.append(git("rev-parse", "HEAD"))
    git("tag", "v1", commits[1])
    git("branch", "old/one", commits[0])
    git("update-server-info")
    handler = functools.partial(Quiet, directory=str(place / ".git"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", commits
        server.shutdown()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *words: object) -> None:
        """Disable the request log."""


# No image on the real test cluster has git; the practice cluster uses the local git.
@pytest.mark.practice_only
def test_submit_git_workdir_checks_out_ref_on_nodes(
    sky: Command, repository: tuple[str, list[str]]
) -> None:
    url, commits = repository
    wanted = {None: "2", "main": "2", "v1": "1", "old/one": "0", commits[1]: "1"}
    for ref, number in wanted.items():
        at = f", ref: {ref}" if ref else ""
        task = f"workdir: {{url: {url}{at}}}\nrun: cat number\n"
        done = sky("submit", "-", "--image", "python:3.11", stdin=task)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.splitlines()[1:] == [number]
    task = f"workdir: {{url: {url}, ref: gone}}\nrun: cat number\n"
    done = sky("submit", "-", "--image", "python:3.11", stdin=task)
    assert done.returncode == 4
    assert "has no branch, tag or commit gone" in done.stdout
