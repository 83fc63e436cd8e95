"""Load YAML with positions; invalid input raises only InvalidFiles."""

import datetime
import subprocess
import sys

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kubectl_sky.errors import InvalidFiles
from kubectl_sky.spec.load import MAX_BYTES, load
from tests.spec.documents import load_problems, read

BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)

REFUSED = {
    b"": ["task.yaml: the file is empty; a task needs at least run or setup"],
    b"# nothing\n---\n": ["task.yaml: the file is empty; a task needs at least run or setup"],
    b"a: 1\nb: 2\na: 3\n": [
        "task.yaml:3:1: duplicate key \"a\", first set in line 1; remove one of them"
    ],
    b"x:\n  a: 1\n  a: 2\ny: {b: 1, b: 2}\n": [
        "task.yaml:3:3: duplicate key \"a\", first set in line 2; remove one of them",
        "task.yaml:4:11: duplicate key \"b\", first set in line 4; remove one of them",
    ],
    b"- a\n- b\n": ["task.yaml:1:1: expected fields such as \"run: …\", got a list"],
    # Of a file that is no task file, nothing is quoted: it may be another user's.
    b"hello": ["task.yaml:1:1: expected fields such as \"run: …\", got a text"],
    b"- key: 1\n  key: 2\n": [
        'task.yaml:1:1: expected fields such as "run: …", got a list;'
        ' remove the "- " before the fields; a line with --- separates documents'
    ],
    b"a: &x [*x]": ["task.yaml:1:8: this alias refers to itself"],
    b"a: &x {b: {c: *x}}": ["task.yaml:1:15: this alias refers to itself"],
    b"a: 1\n---\nb: {\n": ['task.yaml:3:4: document 2: invalid YAML: this "{" is not closed'],
    b"a: {\n---\nb: 1\n": ['task.yaml:1:4: document 1: invalid YAML: this "{" is not closed'],
    b"a: 1\n---\n- b\n": [
        "task.yaml:3:1: document 2: expected fields such as \"run: …\", got a list"
    ],
    b"a: *y": ["task.yaml:1:4: this alias has no anchor before it; quote it if it is text"],
    b"a: &x 1\n---\nb: *x": [
        "task.yaml:3:4: document 2: this alias has no anchor before it; quote it if it is text"
    ],
    BOMB.encode(): [
        "task.yaml:5:4: more than 100,000 values, 10 MB of text or 100 levels;"
        " each use of an alias counts"
    ],
    b"a: !!python/object/apply:os.system ['touch /tmp/x']": [
        "task.yaml:1:4: this tag is not allowed; write it without a tag"
    ],
    b"a: !!python/name:os.system ''": [
        "task.yaml:1:4: this tag is not allowed; write the value without it, or quote it if it is"
        " text"
    ],
    b"a: !secret x": [
        "task.yaml:1:4: this tag is not allowed; write the value without it, or quote it if it is"
        " text"
    ],
    b"[" * 900: ["task.yaml:1:101: nested more than 100 levels deep"],
    b"- " * 100_000: ["task.yaml:1:201: nested more than 100 levels deep"],
    b"{a: " * 100_000: ["task.yaml:1:401: nested more than 100 levels deep"],
    b"a:\n\t- b": [
        "task.yaml:2:1: invalid YAML: a tab indents this line; use spaces to indent"
    ],
    "resources:\u00a0\n  cpus: 1\nb:\u00a0c".encode(): [
        "task.yaml:1:11: invalid YAML: a no-break space (U+00A0); write a space"
    ],
    "run: |\n  a\n\u00a0 b".encode(): [
        "task.yaml:3:1: invalid YAML: a no-break space (U+00A0); write a space"
    ],
    b"name: caf\xe9\n": [
        "task.yaml:1:10: the file is not UTF-8: byte 0xe9 at offset 9; save it as UTF-8"
    ],
    b"a: 1\nb: \xff": [
        "task.yaml:2:4: the file is not UTF-8: byte 0xff at offset 8; save it as UTF-8"
    ],
    "a: 1".encode("utf-16"): [
        "task.yaml: the file is encoded as UTF-16 or UTF-32; save it as UTF-8"
    ],
    "a: 1".encode("utf-32"): [
        "task.yaml: the file is encoded as UTF-16 or UTF-32; save it as UTF-8"
    ],
    b"a: 1\nb: \x00": [
        "task.yaml:2:4: YAML does not allow the character U+0000; is it a text file?"
    ],
    b"a: \x1b[31m": [
        "task.yaml:1:4: YAML does not allow the character U+001B;"
        ' write it as an escape in "quotes"'
    ],
    b"#" * (MAX_BYTES + 1): ["task.yaml: the file is larger than 4 MiB; is it a task file?"],
    b"name: {{name}}\n": [
        "task.yaml:1:8: a key must be text, got a map;"
        " \"{{…}}\" looks like a template: fill it in first"
    ],
    b"? [a, b]\n: 1": ["task.yaml:1:3: a key must be text, got a list"],
    b"a: b: c": [
        (
            'task.yaml:1:5: invalid YAML: unexpected ":"; check the indentation, or quote a'
            ' value that contains ": "'
        ),
    ],
    b"a: 'x\nb: 1\n": ["task.yaml:1:4: invalid YAML: this quote is not closed"],
    b"a: {b: c:}": ['task.yaml:1:9: invalid YAML: unexpected ":"; put the value in quotes'],
    b"a: *.py": ['task.yaml:1:4: invalid YAML: a value cannot start with "*"; put it in quotes'],
    b'a: "b\\d"': [
        "task.yaml:1:6: invalid YAML: a backslash that begins no escape of YAML;"
        " write two, or use single quotes"
    ],
    b"a: @x": ['task.yaml:1:4: invalid YAML: a value cannot start with "@"; put it in quotes'],
    b"a: [1\nb: 2": ['task.yaml:1:4: invalid YAML: this "[" is not closed'],
    b"a: 2023-99-99": [
        "task.yaml:1:4: invalid date; quote it if it is text"
    ],
    b"a: 0b_": ["task.yaml:1:4: invalid number; quote it if it is text"],
    b"a: " + b"9" * 5000: [
        "task.yaml:1:4: number too long; quote it if it is text"
    ],
    b"a: !!int x": ["task.yaml:1:4: invalid number; quote it if it is text"],
    b"on: x\nyes: y\n1: z\n1: a": [
        'task.yaml:2:1: YAML reads "yes" as the key in line 1; put both in quotes',
        'task.yaml:3:1: YAML reads "1" as the key in line 1; put both in quotes',
        'task.yaml:4:1: YAML reads "1" as the key in line 1; put both in quotes',
    ],
    b"a: {<<: 4}": ["task.yaml:1:9: \"<<\" can only merge maps"],
    b"<<: {a: 1}\n<<: {b: 1}": [
        "task.yaml:2:1: duplicate key \"<<\"; merge a list: <<: [*one, *other]"
    ],
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: repr(text[:30]))
def test_load_invalid_file_is_refused_with_message(text: bytes) -> None:
    assert load_problems(text) == REFUSED[text]


def test_load_scalars_equal_pyyaml() -> None:
    text = (
        "a: yes\nb: 0755\nc: 1e3\nd: 12:30:45\ne: 2024-01-02\nf: ~\ng: .inf\nh: 0x1f\ni: 1_000\n"
        "j: '12'\nk: \"yes\"\nl: |\n  text\nm: !!str 12\nn: 1.5\no: =\np:\nq: ! 12\nr: !!float 1\n"
        "s: >-\n  folded\n  text\nu: 2001-12-14t21:59:43.10-05:00\n"
    )
    (document,) = read(text)
    expected = yaml.safe_load(text.replace("o: =", "o: '='"))
    assert document.data == expected
    assert [type(v) for v in document.data.values()] == [type(v) for v in expected.values()]
    assert document.data["e"] == datetime.date(2024, 1, 2)


def test_load_merge_sign_as_value_is_text() -> None:
    (document,) = read("a: <<\nb: [<<, &x '<<', *x]\nc: {'<<': 1}\n")
    assert document.data == {"a": "<<", "b": ["<<", "<<", "<<"], "c": {"<<": 1}}


def test_load_merge_keys_and_aliases_are_resolved() -> None:
    text = (
        "base: &base {cpus: 1, memory: 2}\nother: &other {memory: 3, disk: 4}\n"
        "one: {<<: *base, cpus: 5}\ntwo: {<<: [*base, *other]}\nthree: *base\n"
    )
    (document,) = read(text)
    read_by_pyyaml = yaml.safe_load(text)
    # The first one wins in YAML and PyYAML 6.0.3, the last one in 6.0.4.
    assert read_by_pyyaml.pop("two")["memory"] in (2, 3)
    assert document.data == read_by_pyyaml | {"two": {"cpus": 1, "memory": 2, "disk": 4}}


def test_document_position_of_keys_and_values() -> None:
    (document,) = read("name: x\nresources:\n  cpus: 4\n  any_of:\n    - {memory: 8}\n    - 7\n")
    assert document.position(("resources", "cpus")) == (3, 9)
    assert document.position(("resources", "cpus"), key=True) == (3, 3)
    assert document.position(("resources", "any_of", 0, "memory")) == (5, 16)
    assert document.position(("resources", "any_of", 1)) == (6, 7)
    assert document.position(("resources", "nothing", "below")) == (3, 3)
    assert document.position(()) == (1, 1)


def test_document_position_of_alias_is_that_of_anchor() -> None:
    (document,) = read("a: &a\n  b: 1\nc: *a\n")
    assert document.position(("c", "b")) == (2, 6)


def test_load_several_documents_recognizes_header() -> None:
    header, one, two = read("name: p\n---\nname: a\nrun: x\n---\n---\nname: b\nrun: y\n")
    assert header.is_header
    assert not one.is_header
    assert [(d.index, d.count, d.tasks) for d in (header, one, two)] == [
        (0, 3, 2),
        (1, 3, 2),
        (2, 3, 2),
    ]
    (lonely,) = read("name: p\n")
    assert not lonely.is_header


def test_load_byte_order_mark_is_ignored() -> None:
    (document,) = read(b"\xef\xbb\xbfname: x\n")
    assert document.data == {"name": "x"}
    assert load_problems(b"\xef\xbb\xbfa: \xe9") == [
        "task.yaml:1:4: the file is not UTF-8: byte 0xe9 at offset 3; save it as UTF-8"
    ]


def test_load_windows_line_ends_are_accepted() -> None:
    (document,) = read(b"name: x\r\nrun: |\r\n  a\r\n  b\r\n")
    assert document.data == {"name": "x", "run": "a\nb\n"}


def test_override_error_names_flag() -> None:
    (document,) = read("run: x\nresources:\n")
    changed = document.override(("resources", "cpus"), "abc", "--cpus")
    assert changed.data == {"run": "x", "resources": {"cpus": "abc"}}
    assert document.data == {"run": "x", "resources": None}
    problem = changed.problem(("resources", "cpus"), "is bad")
    assert str(problem) == "--cpus: resources.cpus: is bad"
    assert changed.problem(("run",), "is bad").line == 1


def test_override_below_non_map_is_left_to_schema() -> None:
    (document,) = read("run: x\nresources: [a]\n")
    assert document.override(("resources", "cpus"), "4", "--cpus").data["resources"] == ["a"]


def test_load_does_not_import_kubernetes_client() -> None:
    code = (
        "import sys, kubectl_sky.spec.load, kubectl_sky.spec.task;"
        "sys.exit('kubernetes' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


PIECES = [*"ab:-?&*!|>'\"[]{},#%@~<= \t\n01.", "---\n", "<<: ", "*a", "&a ", "  ", "{<<: *a}"]
YAMLISH = st.lists(st.sampled_from(PIECES), max_size=60).map("".join)


def check_places(data: bytes) -> None:
    try:
        documents = load(data, "f")
    except InvalidFiles as error:
        lines = data.count(b"\n") + data.count(b"\r") + data.count(b"\x85") + 2
        lines += data.decode("utf-8", "replace").count("\u2028")
        lines += data.decode("utf-8", "replace").count("\u2029")
        assert error.problems
        assert all(0 <= p.line <= lines and p.column >= 0 for p in error.problems)
        assert all(p.message and "Traceback" not in p.message for p in error.problems)
    else:
        assert all(isinstance(document.data, dict) for document in documents)


@given(st.binary(max_size=200))
def test_load_random_bytes_give_documents_or_positions(data: bytes) -> None:
    check_places(data)


@given(YAMLISH)
def test_load_random_text_gives_documents_or_positions(text: str) -> None:
    check_places(text.encode())


@given(
    st.dictionaries(
        st.text(max_size=5),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
            max_leaves=20,
        ),
        min_size=1,
    )
)
def test_load_dumped_data_is_equal(data: dict[str, object]) -> None:
    text = yaml.safe_dump(data, allow_unicode=True)
    (document,) = load(text.encode(), "f")
    assert document.data == yaml.safe_load(text)


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
    "envs:\n  A: b\n  TOKEN\nrun: x\n": (
        '3:3: expected "NAME: value"; to set it by a flag, write NAME: null'
    ),
    "secrets:\n  TOKEN: x\nhunter2 y\nrun: z\n": (
        '3:1: expected "key: value"; check the indentation'
    ),
    # indentation
    "name: foo\n  bar: x\n": (
        "2:3: this line is indented more than line 1, so it continues its value;"
        " remove that value, or align this line"
    ),
    "envs:\n  A: b\n B: c\n": (
        "3:2: the indentation of this line matches no field above it; align it with the fields"
        " above"
    ),
    "setup: ~\n  pip install: x\nrun: x\n": (
        "2:3: this line is indented more than line 1, so it continues its value;"
        " for a script, write setup: |"
    ),
    f"# c\n resources:\n   cpus: 1\n{SCRIPT}": (
        "2:2: this line is indented more than line 4 below it; remove 1 space before lines 2 to 3"
    ),
    f"a: b\n---\n   envs:\n     A: b\n\n   name: x\n{SCRIPT}": (
        "3:4: document 2: this line is indented more than line 7 below it;"
        " remove the spaces before lines 3 to 6"
    ),
    f"- name: x\n{SCRIPT}": (
        '1:1: a "-" makes this a list;'
        ' remove the "- " before the fields; a line with --- separates documents'
    ),
    f"name: x\n- {SCRIPT}": (
        '2:1: a "-" among fields; remove the "- ", or indent the items of a list under its field'
    ),
    "name: x\nrun: |{\n  echo\n}\n": (
        '2:7: unexpected text after "|"; write the text in the lines below, indented'
    ),
    "name: x\nrun: >- echo\n": (
        '2:9: unexpected text after ">"; write the text in the lines below, indented'
    ),
    " name: foo\nrun: x\n": (
        "1:2: this line is indented more than line 2 below it; remove the spaces before it"
    ),
    "run: x\n---\n name: foo\nrun: x\n": (
        "3:2: document 2: this line is indented more than line 4 below it;"
        " remove the spaces before it"
    ),
    "name: foo\nrun: |\necho hi\n": (
        "3:1: the text that belongs to line 2 is not indented;"
        " put spaces before each of its lines"
    ),
    "{name: foo}\nrun: x\n": "2:1: unexpected text after the end of the value above",
    f'resources: "8"\n  cpus: 4\n{SCRIPT}': (
        "2:3: the field in line 1 has a value, so nothing belongs below it;"
        " remove that value, or align this line"
    ),
    "run: {}\n  # a comment\n  echo hi\n": (
        "3:3: the field in line 1 has a value, so nothing belongs below it;"
        " for a script, write run: |"
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
