"""A fork of the tests' fork server does what a process of its own does."""

import subprocess

import pytest

from tests.e2e.conftest import Command

WRONG = "name: train\nresources: {acelerators: A100}\nrun: echo hi\n"


@pytest.mark.parametrize(
    ("arguments", "stdin", "code"),
    [
        (("version", "--client"), "", 0),
        (("render", "-", "--user", "tester", "--id", "task0001"), "name: ü\nrun: echo hi\n", 0),
        (("validate", "-"), WRONG, 2),
        (("lisst",), "", 2),
        (("list",), "", 3),
        (("config", "path"), "", 0),  # below HOME
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_fork_prints_and_exits_as_process(
    offline: Command, arguments: tuple[str, ...], stdin: str, code: int
) -> None:
    process = Command(offline.program, offline.environment, offline.folder)
    expected, forked = process(*arguments, stdin=stdin), offline(*arguments, stdin=stdin)
    assert (forked.returncode, forked.stdout, forked.stderr) == (
        expected.returncode,
        expected.stdout,
        expected.stderr,
    )
    assert forked.returncode == code


def test_fork_that_takes_too_long_is_killed(offline: Command) -> None:
    flags = ("list", "--server", "http://127.0.0.1:1", "--request-timeout", "60s")
    with pytest.raises(subprocess.TimeoutExpired):
        offline(*flags, timeout=0.01)
