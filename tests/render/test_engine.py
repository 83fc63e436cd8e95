"""Templates are compiled once, and anew when anything has changed."""

from pathlib import Path

from kubectl_sky.render import manifests
from tests.plan.test_resolve import make_plan


class Memory:
    """What is kept, and how often it was asked for and found."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.found = 0

    def read(self, name: str) -> bytes | None:
        self.found += name in self.kept
        return self.kept.get(name)

    def write(self, name: str, data: bytes) -> None:
        self.kept[name] = data


def test_templates_are_compiled_once(tmp_path: Path) -> None:
    memory = Memory()
    first, again = (manifests.render(make_plan(), None, memory) for _ in range(2))
    assert memory.kept
    assert memory.found == len(memory.kept)
    assert first == again == manifests.render(make_plan())


def test_a_changed_template_is_compiled_again(tmp_path: Path) -> None:
    memory, found = Memory(), []
    for name in ("a", "b"):
        text = f"apiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}}}"
        (tmp_path / "job.yaml.j2").write_text(text)
        (job,) = manifests.render(make_plan(), tmp_path, memory).workload
        found.append(job.object["metadata"]["name"])
    assert found == ["a", "b"]


def test_what_was_kept_by_another_python_is_compiled_again() -> None:
    memory = Memory()
    expected = manifests.render(make_plan(), None, memory)
    memory.kept = dict.fromkeys(memory.kept, b"something else")
    assert manifests.render(make_plan(), None, memory) == expected
