"""The commands of the examples, and what they print."""

import os
import re
import secrets
import shlex
from itertools import count
from pathlib import Path

from tests.e2e.command import Command

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "tests" / "golden" / "examples.md"
_BLOCK = re.compile(r"```(?:console|sh)\n(.*?)```", re.DOTALL)
_IDS = ("kqf7x2wm", "m3r8t5xz", "t6v2n9ha")
_ID = re.compile(r"(?:task|pipeline|group|volume)/(\w{8})")
_ADDRESS = re.compile(r"\b\d+\.\d+\.\d+\.\d+\b")
_PREFIX = re.compile(r"(?:([a-z-]+?)-(\d+)|[\w-]+) \| ")


def blocks() -> dict[str, str]:
    """Return the block of each example by its name."""
    texts = _BLOCK.findall(PAGE.read_text())
    named = ((re.findall(r"examples/(\d\S+)\.yaml", text), text) for text in texts)
    return {names[-1]: text for names, text in named if names}


def commands(block: str) -> list[list[str]]:
    """Return the words of each command after `kubectl sky`, with the secrets that are exported."""
    lines = [line.removeprefix("$ ") for line in block.splitlines()]
    lines = [line.replace("$(openssl rand -hex 32)", secrets.token_hex(32)) for line in lines]
    exports = [shlex.split(line)[1:] for line in lines if line.startswith("export ")]
    values = {word.partition("=")[0]: word for words in exports for word in words}
    commands = [shlex.split(line)[2:] for line in lines if line.startswith("kubectl sky ")]
    return [[values.get(word, word) for word in words] for words in commands]


def play(sky: Command, block: str, *flags: str) -> str:
    """Run the commands of a block, the last one with more flags; return it with their output."""
    if not (examples := sky.folder / "examples").exists():
        examples.symlink_to(ROOT / "examples")  # the commands run in a checkout
    played = []
    words = commands(block)
    for prompt in (line for line in block.splitlines() if line.startswith("$ ")):
        played.append(prompt)
        if prompt.startswith("$ export "):
            continue
        command = words.pop(0)
        more = () if words else flags
        done = sky(*command, *more)
        assert done.returncode == 0, f"{prompt}\n{done.stdout}\n{done.stderr}"
        played += arrange(done.stdout.splitlines())
    return mask("\n".join(played) + "\n")


def arrange(lines: list[str]) -> list[str]:
    """Sort lines by node: only the order of one node's lines is always the same."""
    return sorted(lines, key=_node)


def _node(line: str) -> tuple[str, int]:
    prefix = _PREFIX.match(line)
    if prefix is None:
        return ("", 0)
    return (prefix[1], int(prefix[2])) if prefix[1] else (prefix[0], 0)


def mask(text: str) -> str:
    """Replace what differs from one run to the next."""
    for actual, name in zip(dict.fromkeys(_ID.findall(text)), _IDS, strict=False):
        text = text.replace(actual, name)
    numbers = count(12)
    for address in dict.fromkeys(_ADDRESS.findall(text)):
        text = text.replace(address, f"10.244.1.{next(numbers)}")
    text = re.sub(r"in namespace \S+", "in namespace default", text)
    text = re.sub(r"\bafter \d+ seconds", "after 2 seconds", text)
    return re.sub(r"Python 3\.\d+\.\S+", "Python 3.13.9", text)


def update(block: str, played: str) -> None:
    """Write the output of a block into the file."""
    PAGE.write_text(PAGE.read_text().replace(f"```console\n{block}```", f"```console\n{played}```"))


BLOCKS = blocks()


def check_run(sky: Command, name: str, *flags: str) -> None:
    """Run the commands of an example; `UPDATE_GOLDEN=1` writes their output into the file."""
    played = play(sky, BLOCKS[name], *flags)
    if os.environ.get("UPDATE_GOLDEN"):
        update(BLOCKS[name], played)
    else:
        assert played == BLOCKS[name]
    assert sky.json("status")["status"] == "completed"
