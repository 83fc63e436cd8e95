"""A syntax error is reported where the user can fix it, not where the parser stops."""

import pytest

from tests.spec.documents import load_problems

SCRIPT = "run: |\n  echo hi\n"

MISTAKES = {
    # quotes, braces and brackets: at where they open
    f'name: "foo\n{SCRIPT}': "1:7: this quote is not closed",
    'name: "foo\nenvs:\n  A: "x"\nrun: echo\n': (
        "1:7: this quote is not closed before line 3;"
        " add the closing quote, or check the quotes in line 3"
    ),
    f"name: x\nenvs:\n  A: 'foo\n  B: bar\n{SCRIPT}  echo it's me\n": (
        "3:6: this quote is not closed before line 7;"
        " add the closing quote, or check the quotes in line 7"
    ),
    f"name: foo\nresources: {{cpus: 4\n{SCRIPT}": '2:12: this "{" is not closed',
    "run: x\nresources: {accelerators: {A100: 8}\n": '2:12: this "{" is not closed',
    "resources:\n  any_of: [{cpus: 2}, {cpus: 3\n  memory: 3\nrun: x\n": (
        '2:23: this "{" is not closed'
    ),
    f"file_mounts:\n  /a: {{name: b\n  /c: x\n{SCRIPT}  f() {{ echo; }}\n": (
        '2:7: this "{" is not closed'
    ),
    "name: foo\nnum_nodes: [1, 2\n": '2:12: this "[" is not closed',
    "run: x\nenvs: {A: b}}\n": '2:13: unexpected "}"; nothing is open that it closes',
    'resources: {\n  cpus: "4"\n  memory: 3\n}\n': '3:3: expected "," or "}"',
    "run: \"echo \"hi\"\"\n": (
        "1:13: unexpected text after the closing quote;"
        " to use quotes in a script, write it below run: |"
    ),
    # colons: at the field that lacks it
    f"name foo\n{SCRIPT}": '1:1: expected ":" after "name"',
    f"name: foo\nresources\n  cpus: 4\n{SCRIPT}": '2:1: expected ":" after "resources"',
    "name: foo\nresources:\n  cpus 4\n  memory: 8\n": '3:3: expected ":" after "cpus"',
    "name: foo\nrun |\n  echo hi\n": '2:1: expected ":" after "run"',
    "name: foo\nrun:x\nnum_nodes: 2\n": '2:1: expected a space after ":"',
    "name: foo\nnum_nodes 2\n---\nname: b\n": '2:1: document 1: expected ":" after "num_nodes"',
    "secrets:\n  TOKEN: x\nhunter2 y\nrun: z\n": (
        '3:1: expected "key: value"; check the indentation'
    ),
    # indentation
    "name: foo\n  bar: x\n": (
        "2:3: this line is indented more than line 1, so it continues its value;"
        " check the indentation"
    ),
    "envs:\n  A: b\n B: c\n": (
        "3:2: the indentation of this line matches no field above it; align it with the fields"
        " above"
    ),
    "run: echo a: b\n": (
        '1:12: unexpected ":"; check the indentation, or quote a value that contains ": "'
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", MISTAKES)
def test_syntax_error_is_reported_where_it_can_be_fixed(text: str) -> None:
    (problem,) = load_problems(text)
    assert problem.replace("invalid YAML: ", "") == f"task.yaml:{MISTAKES[text]}"
    assert "invalid YAML: " in problem


def test_syntax_error_in_later_document_has_its_number() -> None:
    assert load_problems("run: x\n---\nrun: y\n---\nname z\nrun: z\n") == [
        'task.yaml:5:1: document 3: invalid YAML: expected ":" after "name"'
    ]
