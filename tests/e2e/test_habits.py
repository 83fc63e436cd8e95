"""Habits of SkyPilot's users that a cluster answers."""

from tests.e2e.command import Command

TASK = "name: dev\nresources: {cpus: 50m, image_id: 'busybox:1.36'}\nrun: sleep 600\n"


def test_name_given_as_namespace_and_shell_line_of_exec(sky: Command) -> None:
    assert sky("submit", "-", "--detach", stdin=TASK).returncode == 0
    for words in (("submit", "-"), ("logs", "dev"), ("stop", "dev"), ("list",)):
        done = sky(*words, "-n", "dev", stdin="nam: x")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith('error: namespace "dev" not found\nhint: -n sets the namesp')
    assert sky("wait", "dev", "--for", "running").returncode == 0
    done = sky("exec", "dev", "X='one  two'; echo \"$X $SKYPILOT_NODE_RANK\"")
    assert (done.returncode, done.stdout) == (0, "one  two 0\n"), done.stderr
    assert sky("exec", "dev", "exit 3; true").returncode == 3
    done = sky("stop", "dev")
    assert "pods and logs are deleted" in done.stderr
