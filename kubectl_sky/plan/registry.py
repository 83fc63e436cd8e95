"""The private registry that a task's image is pulled from: SkyPilot's `SKYPILOT_DOCKER_…`."""

import base64
import json
import re
from dataclasses import dataclass, replace

from kubectl_sky.secret import Secret, reveal
from kubectl_sky.spec.task import Task
from kubectl_sky.spec.variables import REGISTRY

_HUB = ("docker.io", "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com")
_HUB_KEY = "https://index.docker.io/v1/"  # under which every tool looks for Docker Hub's login


@dataclass(frozen=True)
class Login:
    """Who pulls images from a server, and the Secret that says so."""

    secret: str
    server: str
    username: Secret
    password: Secret

    @property
    def config(self) -> Secret:
        """The content of a Secret of the type kubernetes.io/dockerconfigjson."""
        username, password = reveal(self.username).decode(), reveal(self.password).decode()
        auth = base64.b64encode(f"{username}:{password}".encode()).decode()
        login = {"username": username, "password": password, "auth": auth}
        key = _HUB_KEY if address(self.server) in _HUB else self.server
        return Secret(json.dumps({"auths": {key: login}}))


def login(task: Task, whole: str) -> Login | None:
    """Return the login of a task that `hidden` returned; `whole` is the name of its objects.

    The server is an address, and a part of the image's name, wherever the user wrote it.
    """
    username, password, server = (task.secrets.get(name) for name in REGISTRY)
    if not server or username is None or password is None:
        return None
    return Login(f"{whole}-registry", reveal(server).decode().strip(), username, password)


def hidden(task: Task) -> Task:
    """Return the task with the login among its secrets, wherever the file has it."""
    own = {
        name: value if value is None else Secret(value)
        for name, value in task.envs.items()
        if name in REGISTRY
    }
    rest = {name: value for name, value in task.envs.items() if name not in REGISTRY}
    return replace(task, envs=rest, secrets=own | dict(task.secrets)) if own else task


def image(name: str | None, found: Login | None) -> str | None:
    """Return the image as it is pulled: of the login's server, where it names none itself."""
    if name is None or found is None:
        return name
    first, slash, _ = name.partition("/")
    named = slash and (set(first) & set(".:") or first == "localhost")
    there = address(found.server)
    return name if named or there in _HUB else f"{there}/{name}"


def address(server: str) -> str:
    """Return where images of a registry are: `https://ghcr.io/v2/` is ghcr.io."""
    return re.sub(r"^[a-z]+://|(/v[12])?/*$", "", server.lower())
