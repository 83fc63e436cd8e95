"""SkyPilot's verdicts on many texts, frozen in verdicts.tsv by `python -m tests.bench.skypilot`.

Each line has `accept` or `refuse`, the text with `\\n` for a new line, and SkyPilot's words.
"""

import re
from pathlib import Path

from kubectl_sky.errors import InvalidFiles, Problem
from kubectl_sky.spec.compat import differences
from kubectl_sky.spec.load import load
from kubectl_sky.spec.validate import validate

FILE = Path(__file__).parent / "verdicts.tsv"

# What SkyPilot accepts and we refuse knowingly: words of our message, and why.
STRICTER = {
    "more than 100,000 CPUs": "sizes that no machine has",
    "more than an exbibyte": "sizes that no machine has",
    "GPUs per node are not supported": "counts that no machine has",
    "CPUs are a number": "infinity, digits of other scripts and 1_000 in quotes",
    "memory is GiB": "infinity, digits of other scripts and 1_000 in quotes",
    "CPUs have at most three decimal places": "Kubernetes would refuse it",
    "must be more than 0": "SkyPilot drops ephemeral_storage unread",
    "expected a count such as 1, a name": "no GPU is called so",
    "the count must be a number": "infinity, digits of other scripts and 1_0",
    "expected a port": "digits of other scripts",
    "a field's name is text": "such as yes, which is true for YAML",
    "is not a valid label": "Kubernetes would refuse it",
    "is not a valid label value": "Kubernetes would refuse it",
    "expected an image": "no image is called so",
    "more than 10,000 nodes": "a slip of the finger",
    "NUL character": "neither a shell nor a variable can hold it",
    "expected a variable's name": "a line break at the end of a name",
    "this tag is not allowed": "the task would see Python's b'...'",
    "unknown field": "SkyPilot's own fields, misspelt ones without a value, and those of volumes",
    "expected text such as my-pipeline": "a list is no name",
    "duplicate key": "SkyPilot does not look for doubled keys in groups",
    "a task's Service has at most": "of each port there is a rule on every machine",
    "expected one of loadbalancer": "SkyPilot's server knows no other mode",
    "expected one of FAILOVER": "SkyPilot's server knows no other strategy",
    "pod_config": "Kubernetes would refuse it",
    "custom_metadata.labels": "Kubernetes would refuse it",
    "volumes": "SkyPilot looks at volumes when it launches, and fails then",
    "file_mounts": "SkyPilot looks at file mounts when it launches, and fails then",
    "workdir": "SkyPilot looks at the workdir when it launches, and fails then",
    "expected a relative path": "SkyPilot looks at volumes when it launches, and fails then",
}


def table() -> dict[str, str | None]:
    """Return what SkyPilot says to each text; None accepts it."""
    lines = FILE.read_text(encoding="utf-8").split("\n")[:-1]
    rows = (line.split("\t") for line in lines)
    return {unescaped(text): said or None for _, text, said in rows}


def write(found: dict[str, str | None]) -> None:
    """Write the table, in the order of its texts' first words."""
    lines = [
        f"{'refuse' if said else 'accept'}\t{escaped(text)}\t{escaped(said or '')}\n"
        for text, said in found.items()
    ]
    FILE.write_text("".join(lines), encoding="utf-8")


def escaped(text: str) -> str:
    """Return the text on one line."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


def unescaped(text: str) -> str:
    """Return the text as it was."""
    meant = {"n": "\n", "t": "\t", "\\": "\\"}
    return re.sub(r"\\(.)", lambda found: meant[found[1]], text)


def ours(text: str) -> tuple[list[Problem], list[Problem]]:
    """Return our errors, and what we say that SkyPilot would refuse."""
    try:
        documents = load(text.encode(), "task.yaml")
    except InvalidFiles as error:
        return list(error.problems), []
    found = [problem for document in documents for problem in validate(document)]
    errors = [problem for problem in found if problem.severity == "error"]
    return errors, [problem for document in documents for problem in differences(document)]


def disagreement(text: str, said: str | None) -> str:
    """Return what we say of a text although SkyPilot says otherwise, and "" if we are one.

    What SkyPilot refuses we refuse, or say that it does. What it accepts we accept, or refuse for
    one of the reasons above.
    """
    errors, narrower = ours(text)
    if said is not None:
        return "" if errors or narrower else "accepted, and nothing said of SkyPilot"
    known = [any(words in str(problem) for words in STRICTER) for problem in errors]
    if errors:
        return "" if all(known) else f"refused: {errors[known.index(False)]}"
    return f"said of SkyPilot: {narrower[0]}" if narrower else ""
