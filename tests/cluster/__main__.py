"""The test cluster by hand: `python -m tests.cluster prepare|up|env|down`."""

import os
import shlex
import subprocess
import sys
from contextlib import suppress

from programs.bench import skypilot
from tests.cluster import (
    cache,
    controllers,
    drivers,
    hold,
    packages,
    plane,
    practice,
    programs,
)
from tests.cluster.cache import say
from tests.cluster.shell import Broken, Unavailable
from tests.cluster.target import Cluster


def prepare() -> int:
    """Install and build what takes long. Not to be able to is a failure in CI only.

    What the tests without a real Kubernetes wait for comes first. They say what they lack.
    """
    with suppress(Unavailable):
        packages.require("busybox", "chromium", "objdump", "socat", "strip")
    with suppress(Unavailable):
        practice.kubectl()
    with suppress(subprocess.CalledProcessError):
        skypilot.python()
    for name in programs.PROGRAMS:
        programs.build(name)

    try:
        driver = drivers.prepare()
        for controller in controllers.ALL:
            controller.program()
        plane.BETA.program()
    except Unavailable as error:
        say(f"NO KUBERNETES: tests that need one will not run: {error}")
        return 1 if os.environ.get("CI") else 0

    say(f"the tests use {driver.name}")
    return 0


def up() -> int:
    """Start a cluster that stays until `down`, and say how to use it."""
    if not hold.by_hand():
        drivers.prepare()
        with (cache.ROOT / "by-hand.log").open("w") as log:
            hold.Holder.start(os.environ, log).cluster()
    return env()


def env() -> int:
    """Print how a shell, and `make test-all`, come to use the cluster."""
    running = hold.by_hand()
    if not running:
        say("none is up")
        return 1
    sys.stdout.write(_exports(running[1]))
    return 0


def down() -> int:
    """Stop the cluster of `up`."""
    if not hold.stop_by_hand():
        say("none is up")
    return 0


def held() -> int:
    """Have a cluster for the process that started this one."""
    names = [name for name in drivers.NAMED if f"--{name}" in sys.argv]
    hold.hold("--by-hand" in sys.argv, *names)
    return 0


def _exports(cluster: Cluster) -> str:
    assert cluster.kubectl, "a real cluster comes with one"
    folder = shlex.quote(str(cluster.kubectl.parent))
    kubeconfig = shlex.quote(str(cluster.kubeconfig))
    return f"export KUBECONFIG={kubeconfig}\nexport PATH={folder}:$PATH\n"


COMMANDS = {"prepare": prepare, "up": up, "env": env, "down": down, "hold": held}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        sys.exit(f"usage: python -m tests.cluster {'|'.join(COMMANDS)}")
    try:
        sys.exit(COMMANDS[sys.argv[1]]())
    except (Unavailable, Broken) as problem:
        sys.exit(f"cluster: {problem}")
