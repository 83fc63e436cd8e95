"""Print the Python names of SkyPilot as JSON: run with the Python that has SkyPilot.

Functions have the names of their parameters, classes those of their attributes and `__init__`.
"""

import importlib
import inspect
import json
from types import ModuleType


def names(module: ModuleType) -> dict[str, list[str]]:
    """Return the names of a module's functions and classes, with what they have."""
    found = {}
    for name in dir(module):
        item = getattr(module, name)
        if inspect.isclass(item):
            members = [*getattr(item, "__members__", ())]
            found[name] = [*dir(item), *members, *inspect.signature(item.__init__).parameters]
        elif callable(item):
            found[name] = list(inspect.signature(item).parameters)
    return found


if __name__ == "__main__":
    modules = ("sky", "sky.jobs", "sky.serve", "sky.exceptions", "sky.clouds")
    print(json.dumps({name: names(importlib.import_module(name)) for name in modules}))
