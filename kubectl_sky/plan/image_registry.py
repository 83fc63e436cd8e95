"""The private registry of a task's image: SkyPilot's `SKYPILOT_DOCKER_…`."""

import base64
import json
import re
from dataclasses import dataclass, replace

from kubectl_sky.spec.task import Task
from kubectl_sky.spec.variables import REGISTRY
from kubectl_sky.words.secret import Secret, reveal

_HUB = ("docker.io", "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com")
_HUB_KEY = "https://index.docker.io/v1/"  # key of Docker Hub's login in a Docker config


@dataclass(frozen=True)
class Login:
    """The credentials for an image registry, and the name of their Secret."""

    secret: str
    server: str
    username: Secret
    password: Secret

    @property
    def config(self) -> Secret:
        """The content of a Secret of type kubernetes.io/dockerconfigjson."""
        username, password = reveal(self.username).decode(), reveal(self.password).decode()
        auth = base64.b64encode(f"{username}:{password}".encode()).decode()
        find_login = {"username": username, "password": password, "auth": auth}
        key = _HUB_KEY if address(self.server) in _HUB else self.server
        return Secret(json.dumps({"auths": {key: find_login}}))


def find_login(task: Task, object_name: str) -> Login | None:
    """Return the login of a task that `move_login_to_secrets` returned.

    The server is not a secret: it is an address and becomes a part of the image name.
    """
    username, password, server = (task.secrets.get(name) for name in REGISTRY)
    if not server or username is None or password is None:
        return None
    return Login(f"{object_name}-registry", reveal(server).decode().strip(), username, password)


def move_login_to_secrets(task: Task) -> Task:
    """Return the task with the registry login moved from its envs to its secrets."""
    credentials = {
        name: value if value is None else Secret(value)
        for name, value in task.envs.items()
        if name in REGISTRY
    }
    others = {name: value for name, value in task.envs.items() if name not in REGISTRY}
    return (
        replace(task, envs=others, secrets=credentials | dict(task.secrets))
        if credentials
        else task
    )


def full_image(name: str | None, login: Login | None) -> str | None:
    """Return the image to pull; the login's server is the default registry."""
    if name is None or login is None:
        return name
    first, slash, _ = name.partition("/")
    has_registry = slash and (set(first) & set(".:") or first == "localhost")
    server = address(login.server)
    return name if has_registry or server in _HUB else f"{server}/{name}"


def address(server: str) -> str:
    """Return the registry part of image names: `https://ghcr.io/v2/` is ghcr.io."""
    return re.sub(r"^[a-z]+://|(/v[12])?/*$", "", server.lower())
