"""Stand-ins for kind and docker, for machines without them.

Each keeps what it has made in a file, refuses flags that the real one does not know, and prints
what the real one prints. Run as `programs.py NAME ARGUMENT...` by a script of that name.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

FILE = "made.json"
CALLS = "calls"
Made = dict[str, Any]


class Failed(Exception):
    """What the program says on stderr before it exits with 1."""


def install(folder: Path, *names: str) -> None:
    for name in names:
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -IS "{__file__}" {name} "$@"\n')
        program.chmod(0o755)
    (folder / FILE).write_text(json.dumps({"nodes": {}, "engine": True, "images": True}))


def change(folder: Path, **changes: object) -> Made:
    """Change the world of the programs: `engine`, whether Docker runs, `images`, `nodes`."""
    made: Made = json.loads((folder / FILE).read_text()) | changes
    (folder / FILE).write_text(json.dumps(made))
    return made


def calls(folder: Path) -> list[str]:
    return (folder / CALLS).read_text().splitlines() if (folder / CALLS).exists() else []


def _parse(arguments: list[str], *flags: str, switches: tuple[str, ...] = ()) -> dict[str, Any]:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("names", nargs="*")
    for flag in flags:
        parser.add_argument(flag)
    for switch in switches:
        parser.add_argument(switch, action="store_true")
    return {name.replace("_", "-"): v for name, v in vars(parser.parse_args(arguments)).items()}


def _config(name: str) -> str:
    cluster = {"server": "https://127.0.0.1:40000", "certificate-authority-data": "YQ=="}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"client-key-data": "Yg=="}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    return json.dumps(config) + "\n"


def _users_config(name: str) -> None:
    """The real ones write into the kubeconfig of the environment, or the user's."""
    path = Path(os.environ.get("KUBECONFIG") or "~/.kube/config").expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_config(name))


def _create(made: Made, nodes: list[str]) -> None:
    if made["nodes"]:
        raise Failed("ERROR: node(s) already exist for a cluster with the name")
    made["nodes"] = dict.fromkeys(nodes, "running")
    if not made["images"]:
        raise Failed("ERROR: failed to pull image")


def _set(made: Made, state: str) -> None:
    made["nodes"] = dict.fromkeys(made["nodes"], state)


def _kubectl(made: Made, arguments: list[str]) -> str:
    flags = _parse(arguments, "-o", "-p", "--type", "--subresource", "--kubeconfig", "--raw")
    if flags["raw"]:
        return "ok"
    verb, what, *_ = flags["names"]
    if (verb, what) == ("get", "nodes"):
        return "".join(f"node/{name}\n" for name in made["nodes"])
    patch = json.loads(flags["p"])
    if "status" in patch and flags["subresource"] != "status":
        raise Failed("the status is a subresource")
    made.setdefault("patched", {}).setdefault(what, []).append(patch)
    return f"{what} patched\n"


def docker(made: Made, arguments: list[str]) -> str:
    if not made["engine"]:
        raise Failed("Cannot connect to the Docker daemon at unix:///var/run/docker.sock.")
    verb, *rest = arguments
    if verb == "version":
        return f"{_parse(rest, '--format') and '28.2.2'}\n"

    if verb == "ps":
        flags = _parse(rest, "--filter", "--format", switches=("--all",))
        assert flags["filter"] == "label=io.x-k8s.kind.cluster=sky-local"
        assert flags["format"] == "{{.Names}} {{.State}}"
        return "".join(f"{name} {state}\n" for name, state in made["nodes"].items())

    if verb == "exec":
        assert made["nodes"][rest[0]] == "running"
        assert rest[1] == "kubectl"
        return _kubectl(made, rest[2:])

    assert set(rest) == set(made["nodes"])
    _set(made, {"start": "running", "stop": "exited"}[verb])
    return "".join(f"{name}\n" for name in rest)


def kind(made: Made, arguments: list[str]) -> str:
    verb, noun, *rest = arguments
    if (verb, noun) == ("create", "cluster"):
        flags = _parse(rest, "--name", "--wait", "--config")
        assert flags["config"] == "-"
        config = json.load(sys.stdin)
        roles = [node["role"] for node in config["nodes"]]
        workers = [f"{flags['name']}-worker{n or ''}" for n in range(roles.count("worker"))]
        made["port"] = config["networking"]["apiServerPort"]
        _create(made, [f"{flags['name']}-control-plane", *workers])
        _users_config(f"kind-{flags['name']}")
        return ""

    flags = _parse(rest, "--name")
    if (verb, noun) == ("delete", "cluster"):
        made["nodes"] = {}
        return ""

    assert (verb, noun) == ("get", "kubeconfig")
    return _config(f"kind-{flags['name']}")


PROGRAMS: dict[str, Callable[[Made, list[str]], str]] = {
    "docker": docker,
    "kind": kind,
}


def main(folder: Path, name: str, arguments: list[str]) -> None:
    with (folder / CALLS).open("a") as file:
        file.write(" ".join([name, *arguments]) + "\n")
    made = change(folder)
    try:
        sys.stdout.write(PROGRAMS[name](made, arguments))
    except Failed as error:
        sys.exit(str(error))
    finally:
        change(folder, **made)


if __name__ == "__main__":
    main(Path(os.environ["PATH"].split(os.pathsep)[0]), sys.argv[1], sys.argv[2:])
