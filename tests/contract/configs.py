"""Kubeconfigs for tests."""

from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]


def make_config(
    path: Path, name: str = "here", user: Json | None = None, cluster: Json | None = None
) -> Path:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": name, "cluster": {"server": f"https://{name}.invalid:6443"} | (cluster or {})}
        ],
        "users": [{"name": name, "user": user or {"token": "t"}}],
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": name, "namespace": f"{name}-ns"}}
        ],
        "current-context": name,
    }
    path.write_text(yaml.safe_dump(config))
    return path
