"""Task files as commands load them, and their plans without a cluster."""

import io
from pathlib import Path
from typing import Any

from kubectl_sky.plan.plan import Plan
from kubectl_sky.submitting.overrides import Overrides
from kubectl_sky.submitting.taskfile import Source, TaskFile, prepare
from kubectl_sky.tasks.ui import UI
from kubectl_sky.words import owners
from kubectl_sky.words.facts import Facts
from kubectl_sky.workloads.decide import decide

FACTS = Facts(owners.name_owner("alice"), "team")


def drafted(text: str, tmp_path: Path, **flags: Any) -> TaskFile:
    file = tmp_path / "tasks.yaml"
    file.write_text(text)
    environ = {"KUBECTL_SKY_CONFIG_HOME": str(tmp_path)}
    return prepare(Source(str(file), Overrides(**flags), environ, io.BytesIO()), UI())


def plans(task_file: TaskFile) -> list[Plan]:
    return list(decide(task_file.entries, FACTS, task_file.settings).plans)
