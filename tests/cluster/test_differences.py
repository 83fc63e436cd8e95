"""The table of tests that cannot run on the practice cluster names existing tests."""

import ast
from pathlib import Path

import pytest

from tests.cluster.differences import REAL_ONLY
from tests.observe.troubles import TROUBLES

TROUBLE_NAMES = [trouble.name for trouble in TROUBLES]
ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("test", REAL_ONLY)
def test_real_only_test_exists_and_has_reason(test: str) -> None:
    file, _, name = test.partition("::")
    tree = ast.parse((ROOT / file).read_text())
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    function, _, case = name.partition("[")
    assert function in functions
    known = ast.unparse(functions[function]) + "".join(TROUBLE_NAMES)
    assert case.removesuffix("]") in known
    assert len(REAL_ONLY[test]) > 20
