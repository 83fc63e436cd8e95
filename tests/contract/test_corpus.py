"""What public SkyPilot files become is accepted by the server, without one unknown field."""

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubectl_sky import users
from kubectl_sky.actions.draft import draft
from kubectl_sky.actions.overrides import Overrides
from kubectl_sky.actions.render import render
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError, InvalidFiles
from kubectl_sky.facts import Facts
from kubectl_sky.render.manifests import Manifests
from tests.spec.test_corpus import CORPUS, rows

pytestmark = pytest.mark.outside


def open_values(tasks: list[dict[str, Any]], field: str) -> tuple[str, ...]:
    """Values for the variables that a file leaves to the command line."""
    return tuple(
        f"{name}=dummy"
        for task in tasks
        for name, value in (task.get(field) or {}).items()
        if value is None
    )


@contextmanager
def unseen(label: str, size: int) -> Iterator[Callable[[int], object]]:
    """Nobody watches how files are packed."""
    yield lambda size: None


def make_files(task: dict[str, Any]) -> None:
    """Make the local files that a task names, where it looks for them."""
    for source in ((task.get("file_mounts") or {}) | {"": task.get("workdir")}).values():
        if isinstance(source, str) and "://" not in source:
            path = Path(os.path.expandvars(source)).expanduser()
            folder = source == task.get("workdir") or not path.suffix
            (path if folder else path.parent).mkdir(parents=True, exist_ok=True)
            if not folder:
                path.touch()


def manifests(path: Path, namespace: str) -> Manifests:
    tasks = [one for one in yaml.safe_load_all(path.read_text()) if one]
    for task in tasks:
        make_files(task)
    overrides = Overrides(
        env=open_values(tasks, "envs"), secret=open_values(tasks, "secrets"), as_task=True
    )
    drafted = draft(str(path), overrides, {}, io.BytesIO(), progress=unseen)
    return render(drafted, Facts(users.named("tester"), namespace), show_secrets=True)


def test_the_server_accepts_what_is_rendered(
    session: Session, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    accepted, wrong = 0, []
    valid = [row["file"] for row in rows() if row["with_dummy_envs"] == "accept"]
    for file in valid:
        try:
            found = manifests(CORPUS / file, namespace)
        except InvalidFiles as refused:
            # for a field that is not carried out, which is named by its line
            wrong += [str(one) for one in refused.problems if not (one.line and one.hint)]
            continue
        try:
            for manifest in found.all:
                objects.apply(session, manifest.object, dry_run=True)
            accepted += 1
        except ClusterError as error:
            wrong.append(f"{file}: {error}")
    assert wrong == []
    assert accepted or not valid
