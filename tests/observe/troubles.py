"""The failures of troubles.yaml, as values.

Each is made on the clusters by tests/e2e/test_doctor.py, which also records what it saw there for
tests/observe/test_doctor.py: RECORD_SNAPSHOTS=1 does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]


@dataclass(frozen=True)
class Trouble:
    """A failure: what is added to an ordinary task, and the rule and words that have to come of it.

    `head` is merged into the task's file, `job`, `pod` and `main` into the Job's spec, the pod's
    spec and the container; `objects` are made before.
    """

    name: str
    rule: str
    says: str
    run: str = "sleep 60"
    head: Mapping[str, Any] = field(default_factory=dict)
    job: Mapping[str, Any] = field(default_factory=dict)
    pod: Mapping[str, Any] = field(default_factory=dict)
    main: Mapping[str, Any] = field(default_factory=dict)
    objects: tuple[Json, ...] = ()


TROUBLES = tuple(
    Trouble(**item) for item in yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
)


@dataclass(frozen=True)
class Refusal:
    """A task that Kueue does not let in: its flags, what is changed before, and what is said.

    They are made by tests/e2e/test_queues.py, and recorded like the others.
    """

    name: str
    rule: str
    says: str
    flags: tuple[str, ...]
    after: bool = False
    patch: Mapping[str, Any] = field(default_factory=dict)


REFUSALS = tuple(
    Refusal(**item) for item in yaml.safe_load(Path(__file__).with_name("queued.yaml").read_text())
)
