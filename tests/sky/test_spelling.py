"""Every name and parameter of `kubectl_sky.sky` has the spelling of SkyPilot's own."""

import ast
import inspect
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType

import pytest

from kubectl_sky import sky
from kubectl_sky.sky import clusters, requests, states, tasks
from programs.bench import skypilot as bench

pytestmark = pytest.mark.tools  # installs SkyPilot

# Of SkyPilot before 0.8; those of `launch` were also those of `jobs.launch`.
OLDER = {"stream_logs", "detach_setup", "detach_run", "retry_until_up", "fast"}
PARTS = {
    "sky": (clusters, requests, states, tasks),
    "sky.jobs": (sky.jobs,),
    "sky.serve": (sky.serve,),
}
Names = dict[str, dict[str, list[str]]]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Names:
    """The names of SkyPilot's modules, with the parameters or members of each."""
    found: Names = bench.run_script("sdk.py", tmp_path_factory.mktemp("home"))
    return found


def public(module: ModuleType) -> list[str]:
    """Return the names that a module offers."""
    tree = ast.parse(Path(str(module.__file__)).read_text())
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    own = [name for name in functions if not name.startswith("_")]
    enums = [name for name, item in vars(module).items() if isinstance(item, type(Enum))]
    return getattr(module, "__all__", [*own, *(name for name in enums if name != "Enum")])


def parameters(module: ModuleType) -> Iterator[tuple[str, set[str]]]:
    """Yield the functions of a module with the names of their parameters and options."""
    tree = ast.parse(Path(str(module.__file__)).read_text())
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in public(module):
            arguments = [*node.args.args, *node.args.kwonlyargs]
            calls = (item for item in ast.walk(node) if isinstance(item, ast.Call))
            checks = (call.args[2] for call in calls if ast.unparse(call.func) == "check")
            known = [eval(ast.unparse(item), vars(module)).split() for item in checks]
            yield node.name, {item.arg for item in arguments} | set().union(*known)


@pytest.mark.parametrize("part", PARTS)
def test_functions_and_parameters_are_those_of_skypilot(names: Names, part: str) -> None:
    theirs = names[part]
    offered = {name for module in PARTS[part] for name in public(module)}
    assert offered - set(theirs) == set()
    unknown = {
        name: extra
        for module in PARTS[part]
        for name, given in parameters(module)
        if (extra := given - set(theirs[name]) - OLDER)
    }
    assert unknown == {}


def test_classes_and_members_are_those_of_skypilot(names: Names) -> None:
    theirs = names["sky"]
    for kind in (sky.Task, sky.Resources, sky.Storage, sky.Dag):
        own = {name for name in vars(kind) if not name.startswith("_")} - {"to_yaml_configs"}
        own |= {*inspect.signature(kind.__init__).parameters} - {"fields"}
        assert own - set(theirs[kind.__name__]) - {"to_yaml_config"} == set(), kind
    for name in states.__all__:
        assert {*getattr(states, name).__members__} <= {*theirs[name]}, name
    assert set(sky.clouds.NAMES) <= set(names["sky.clouds"])


def test_exceptions_are_those_of_skypilot(names: Names) -> None:
    own = {name for name, item in vars(sky.exceptions).items() if inspect.isclass(item)}
    imported = {"IntEnum", "Refused", "SkyError", "UnknownName", "Unreachable", "UserError"}
    offered = own - imported | {*sky.exceptions.NEVER_RAISED}
    assert offered - set(names["sky.exceptions"]) == set()
