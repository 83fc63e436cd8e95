"""Find statements that pack several steps into one, in files or in all that git tracks."""

import ast
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path


def main() -> int:
    files = sys.argv[1:] or _list_tracked()
    found = [f"{file}:{problem}" for file in files for problem in _check(Path(file).read_text())]
    sys.stdout.writelines(f"{problem}\n" for problem in found)
    return 1 if found else 0


def _list_tracked() -> list[str]:
    command = ["git", "ls-files", "*.py", ":!*_pb2.py"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()


def _check(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign) and _is_packed(node):
            yield f"{node.lineno}: two assignments in one statement"
        place, parts = _parts(node)
        for part in parts:
            inner = part.value if isinstance(part, ast.Starred) else part
            if isinstance(inner, ast.IfExp):
                yield f"{inner.lineno}: conditional expression in {place}"


def _is_packed(node: ast.Assign) -> bool:
    """Return whether a tuple is assigned to a tuple, but not to swap values."""
    if not isinstance(node.value, ast.Tuple):
        return False
    values = sorted(map(ast.unparse, node.value.elts))
    targets = [target for target in node.targets if isinstance(target, ast.Tuple | ast.List)]
    return any(sorted(map(ast.unparse, target.elts)) != values for target in targets)


def _parts(node: ast.AST) -> tuple[str, Sequence[ast.expr]]:
    match node:
        case ast.Tuple(elts=parts):
            return "a tuple", parts
        case ast.Call(args=args, keywords=keywords) if len(args) + len(keywords) > 1:
            return "a call of several arguments", [*args, *(word.value for word in keywords)]
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return "another conditional expression", [test, body, orelse]
    return "", []


if __name__ == "__main__":
    sys.exit(main())
