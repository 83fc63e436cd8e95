"""The output of `render` is valid for kubectl and equal to what `submit` creates."""

import pytest

from tests.e2e.command import Command

TASK = """\
name: reviewed
num_nodes: 2
resources: {cpus: 50m, memory: 64Mi, labels: {ready: "yes", version: "1.0"}, ports: 8080}
envs:
  YES: "yes"
  FLOAT: 1e3
  TIME: "12:30"
  QUOTES: it's "quoted"
  LINES: "kind: Secret\\n---\\n# no comment"
  JSON: '{"a": [1, null]}'
secrets: {TOKEN: "0x1F"}
setup: |
  # prepares
      echo indented
run: |2
    if true; then
  \techo "done"
    fi
"""


@pytest.mark.parametrize(
    "backend", [pytest.param("jobs", marks=pytest.mark.practice_only), "indexed"]
)
def test_render_submitted_task_has_empty_kubectl_diff(
    sky: Command, kubectl: Command, backend: str
) -> None:
    """Except for the Secret: its token is random, and `render` redacts values."""
    flags = ("-", "--id", f"diff{backend[:3]}1", "--user", "tester", "--backend", backend)
    done = sky("submit", *flags, "--detach", stdin=TASK)
    assert done.returncode == 0, done.stderr
    rendered = sky("render", *flags, stdin=TASK)
    assert rendered.returncode == 0, rendered.stderr
    documents = rendered.stdout.split("---\n")
    others = [document for document in documents if "\nkind: Secret\n" not in document]
    assert len(others) == len(documents) - 1
    diff = kubectl("diff", "-f", "-", stdin="---\n".join(others))
    assert (diff.returncode, diff.stdout) == (0, ""), diff.stderr
    (ports,) = [document for document in others if "8080" in document and "Service" in document]
    assert kubectl("diff", "-f", "-", stdin=ports.replace("8080", "8081")).returncode == 1


def test_render_as_submitted_makes_the_task_of_submit_with_kubectl_apply(
    sky: Command, kubectl: Command
) -> None:
    """Without a login: the owner is the user that the cluster knows."""
    assert sky("auth", "logout").returncode == 0
    script = "name: applied\nrun: echo applied by kubectl\n"
    rendered = sky("render", "-", "--as-submitted", "--id", "apply001", stdin=script)
    assert (rendered.returncode, rendered.stderr) == (0, "")
    done = kubectl("apply", "-f", "-", stdin=rendered.stdout)
    assert done.returncode == 0, done.stderr
    assert "apply001" in sky("list", "--no-headers").stdout
    followed = sky("logs", "applied", "-f")
    assert (followed.returncode, followed.stdout) == (0, "applied by kubectl\n"), followed.stderr
    assert sky("submit", "-", "--id", "apply001", "-d", stdin=script).returncode == 0
    assert sky("stop", "apply001").stdout == "task/apply001 (applied) stopped\n"
    left = kubectl("get", "jobs,configmaps", "-l", "task-id=apply001", "-o", "name").stdout
    assert not [name for name in left.splitlines() if "job" in name]


EXPLAINED = """
name: told
num_nodes: 2
resources: {image_id: "busybox:1.36", cpus: 1, labels: {team: research}}
envs: {TEXT: 'a  # "b"'}
run: echo done
"""


@pytest.mark.practice_only
def test_render_explain_is_accepted_by_server(sky: Command, kubectl: Command) -> None:
    done = sky("render", "-", "--explain", "--id", "told0001", stdin=EXPLAINED)
    assert done.returncode == 0, done.stderr
    assert 'cpu: "1"  # <stdin>:4:39 resources.cpus\n' in done.stdout
    flags = ("--dry-run=server", "--validate=strict", "-f", "-")
    sent = kubectl("create", *flags, stdin=done.stdout)
    assert sent.returncode == 0, sent.stderr
