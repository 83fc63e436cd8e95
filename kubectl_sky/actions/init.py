"""`init`: write a first task file, with comments."""

from pathlib import Path

from kubectl_sky import __version__
from kubectl_sky.errors import UserError
from kubectl_sky.spec.load import load
from kubectl_sky.spec.validate import validate

_SCHEMA = f"https://github.com/kubectl-sky/kubectl-sky/raw/v{__version__}/schemas/task.json"
_TASK = """\
# yaml-language-server: $schema={schema}
# Run it: kubectl sky submit {file}
name: {name}

# What each node needs. Remove what you do not need.
resources:
  cpus: 1+          # at least 1 CPU; without the +, exactly 1
  memory: 1+        # GiB
  # accelerators: A100:1
  # image_id: docker:python:3.13    # default: python:3.13-slim

# num_nodes: 2      # the nodes find each other by $SKYPILOT_NODE_IPS

# workdir: .        # uploads this folder to every node; run starts in it

# envs:
#   EPOCHS: 10      # override it with --env EPOCHS=20

# setup: |          # runs before run, for example to install packages
#   pip install numpy

# The task itself. Without run, the node stays up, and
# "kubectl sky exec ID -it -- bash" gets you in.
run: |
  echo "Hello from node $SKYPILOT_NODE_RANK of $SKYPILOT_NUM_NODES"
"""


def text(file: str, name: str) -> str:
    """Return a task file. Raises InvalidFiles for an invalid name."""
    content = _TASK.format(schema=_SCHEMA, file=file, name=name)
    if any(validate(document) for document in load(content.encode(), file)):
        raise UserError(f'invalid task name "{name}"', "use letters, digits and dashes")
    return content


def write(target: str, force: bool) -> Path:
    """Write a task file; `target` is its path or its name. Raises UserError if it exists."""
    path = Path(target if target.endswith((".yaml", ".yml")) else f"{target}.yaml")
    content = text(str(path), path.stem)
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(content)
    except FileExistsError:
        raise UserError(f"{path} already exists", "to overwrite it, use --force") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"{path}: cannot be written: {reason.lower()}") from None
    return path
