"""Kubeconfigs, and who reads them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from kubectl_sky.cluster import plain

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


@pytest.fixture(autouse=True, params=["plain", "client"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Who reads a file that both can; of what only the client can read both make the same."""
    if request.param == "client":
        monkeypatch.setattr(plain, "locate", lambda *_: None)
    return str(request.param)
