"""Change YAML texts at random, as people and accidents do."""

import copy
import random
from collections.abc import Iterator
from typing import Any

import yaml

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 1.5, 10**9, "", " ", "x", "1", "1.5", "10", "-1", "yes", "~",
    "8+", "4x", "16GB", "16G", "16Gi", "500m", "100G", "1.5GB", "A100", "A100:8", "V100:0.5",
    "80-90", "8080,8081", "k8s", "k8s/ctx", "aws", "AWS/us-east-1", "docker:python:3.11", "10m",
    "10s", "2h", "none", "FAILOVER", "MOUNT", "copy", "s3://bucket", "/a", "./a", "~/a", "a b",
    "$A", "${A}", "\u00e4", "secrets:A", "low", "best", "k8s-pvc",
    [], {}, [None], ["x"], [1], [{}], {"a": "b"}, {"a": None}, {"A100": 8}, {"A100": "8"},
    {"A100": None, "V100": None}, [{"A100": 1}], ["A100:1", "V100"], {"name": "v"},
    {"source": "/tmp"},
)  # fmt: skip
KEYS = (
    "name", "run", "setup", "envs", "secrets", "resources", "cpus", "memory", "accelerators",
    "gpus", "infra", "cloud", "region", "ports", "labels", "image_id", "any_of", "ordered",
    "disk_size", "priority", "use_spot", "autostop", "file_mounts", "volumes", "service", "pool",
    "workers", "config", "kubernetes", "workdir", "num_nodes", "inputs", "source", "mode", "store",
    "foo", "x-foo", "_foo", "type", "size", "execution", "job_recovery", "network_tier",
)  # fmt: skip


def mutated(text: str, chance: random.Random) -> str:
    """Return the text with one to three changes; what is no YAML loses or gets a character."""
    try:
        root = dict(enumerate(yaml.safe_load_all(text)))
        for _ in range(chance.randint(1, 3)):
            parent, key = chance.choice(list(within(root)))
            change(parent, key, chance)
        return yaml.safe_dump_all(root.values(), default_flow_style=True, width=10**6)
    except (yaml.YAMLError, TypeError, RecursionError, IndexError):
        return scratched(text, chance)


def scratched(text: str, chance: random.Random) -> str:
    """Return the text with one character changed."""
    at = chance.randrange(len(text) + 1)
    return text[:at] + chance.choice("{}[]:,-&*!|>'\"%@`#? \n\ta1") + text[at + 1 :]


def within(parent: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each place in data, as its parent and its key or index."""
    items = parent.items() if isinstance(parent, dict) else enumerate(parent)
    for key, value in list(items):
        yield parent, key
        if isinstance(value, dict | list):
            yield from within(value)


def change(parent: Any, key: Any, chance: random.Random) -> None:
    """Change what stands at a place: its value, its name, what is beside it or below it."""
    kind = chance.randrange(5)
    value = parent[key]
    if kind == 0 and isinstance(key, str):
        parent[misspelt(key, chance)] = parent.pop(key)
    elif kind == 1 and isinstance(value, dict):
        value[chance.choice(KEYS)] = copy.deepcopy(chance.choice(VALUES))
    elif kind == 2 and isinstance(value, list):
        value.append(copy.deepcopy(chance.choice(VALUES)))
    elif kind == 3 and isinstance(value, int | float | str):
        parent[key] = bordering(value, chance)
    else:
        parent[key] = copy.deepcopy(chance.choice(VALUES))


def misspelt(key: str, chance: random.Random) -> str:
    """Return a name with two letters swapped, one lost, or in capitals."""
    at = chance.randrange(len(key) + 1)
    forms = (key[:at] + key[at + 1 :], key.upper(), key + "s", key[:at] + key[at:][:2][::-1])
    return chance.choice(forms)


def bordering(value: Any, chance: random.Random) -> Any:
    """Return a value beside the given one."""
    if isinstance(value, str):
        return chance.choice((value.upper(), value + "x", f" {value}", value[:-1], f"{value}/"))
    return chance.choice((-value, value + 1, float(value), str(value), value * 10**6))
