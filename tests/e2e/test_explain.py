"""The output of `render --explain` can be applied."""

import pytest

from tests.e2e.command import Command

TASK = """
name: told
num_nodes: 2
resources: {image_id: "busybox:1.36", cpus: 1, labels: {team: research}}
envs: {TEXT: 'a  # "b"'}
run: echo done
"""


@pytest.mark.practice_only
def test_render_explain_is_accepted_by_server(sky: Command, kubectl: Command) -> None:
    done = sky("render", "-", "--explain", "--id", "told0001", stdin=TASK)
    assert done.returncode == 0, done.stderr
    assert 'cpu: "1"  # <stdin>:4:39 resources.cpus\n' in done.stdout
    flags = ("--dry-run=server", "--validate=strict", "-f", "-")
    sent = kubectl("create", *flags, stdin=done.stdout)
    assert sent.returncode == 0, sent.stderr
