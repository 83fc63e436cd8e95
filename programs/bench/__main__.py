"""Time commands beside kubectl, stern and SkyPilot: `python -m programs.bench TARGET [TABLE…]`.

Targets are `commands`, `cluster` (a real Kubernetes), and, with 1,000 pretended cluster nodes,
`scale` and `server`.
"""

import argparse
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from programs.bench import cluster, commands, scale, server
from programs.bench.harness import Bench
from tests.cluster.hold import Holder

Tables = Mapping[str, Callable[[Bench], None]]

TARGETS: Mapping[str, Tables] = {
    "commands": commands.TABLES,
    "cluster": cluster.TABLES,
    "scale": scale.TABLES,
    "server": server.TABLES,
}


def main() -> None:
    """Print the tables of a target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("tables", nargs="*", metavar="TABLE")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/")
    parser.add_argument("--short", action="store_true", help="the smallest sizes, once")
    given = parser.parse_args()
    tables = TARGETS[given.target]

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        bench = replace(Bench.install(folder), short=given.short, writes=given.write)
        if given.target != "commands":
            holder = Holder.start(os.environ)
            stack.callback(holder.stop)
            bench = bench.on(holder.cluster())
        if given.target in ("scale", "server"):
            stack.enter_context(scale.cluster_nodes(bench))
        for name in given.tables or tables:
            tables[name](bench)


main()
