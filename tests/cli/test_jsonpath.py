"""JSONPath templates as in kubectl."""

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubectl_sky.cli.jsonpath import columns, render
from kubectl_sky.errors import UserError

VALUE = {"tasks": [{"id": "a", "n": 1, "x.y": True}, {"id": "b", "n": 2}], "name": "é"}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.name}", "é"),
        (".name", "é"),
        ("name", "é"),
        ("{.tasks[*].id}", "a b"),
        ("{.tasks[0].id}", "a"),
        ("{.tasks[-1:].id}", "b"),
        ("{.tasks[?(@.n>1)].id}", "b"),
        ("{.tasks[0]['x.y']}", "true"),
        ("{.tasks[1]}", '{"id":"b","n":2}'),
        ('{range .tasks[*]}{.id}={.n}{"\\n"}{end}', "a=1\nb=2\n"),
        ("{range .tasks[*]}{.id} of {$.name}, {end}", "a of é, b of é, "),
        ("{ range .tasks[*] }{.id},{ end }", "a,b,"),
        ("id: {.name}!", "id: é!"),
        ("{.nothing}", ""),
        ("{'a{b'}", "a{b"),
        ("{..id}", "a b"),
    ],
)
def test_jsonpath_template_renders_text(template: str, text: str) -> None:
    assert render(VALUE, template) == text


@pytest.mark.parametrize(
    ("template", "message", "hint"),
    [
        ("{.name}{t}", "{t}: unrecognized identifier", r'{.t}; text is quoted, {"\t"}'),
        ("{.items[].id}", "empty bracketed segment", "such as {.items[*].name}"),
        ("{.items[?(@.id==”a”)]}", "unexpected", "with plain quotes"),
    ],
)
def test_jsonpath_that_is_invalid_has_a_next_step(template: str, message: str, hint: str) -> None:
    with pytest.raises(UserError) as error:
        render({"kind": "TaskList", "tasks": [{"id": "a"}]}, template)
    assert message in error.value.what
    assert hint in error.value.hint


def test_items_of_a_list_document_are_its_rows() -> None:
    document = {"kind": "TaskList", "tasks": [{"id": "a"}, {"id": "b"}]}
    assert render(document, "{.items[*].id}") == "a b"
    assert render(document, "{range .items[*]}{.items}{.id},{end}") == "a,b,"


@pytest.mark.parametrize("template", ["{.name", "{range .tasks[*]}", "{.tasks[}", "{end", "{}}"])
def test_jsonpath_invalid_template_is_user_error(template: str) -> None:
    with pytest.raises(UserError, match="jsonpath"):
        render(VALUE, template)


@given(st.text(alphabet="{}[]'\".*$@?()ab0 \\", max_size=20))
@example("{.tasks[?" + "(" * 2000 + "@.rank" + ")" * 2000 + "]}")
@example("{range .}" * 200 + "{end}" * 200)
def test_jsonpath_random_or_deep_template_is_rendered_or_refused(template: str) -> None:
    with suppress(UserError):
        assert isinstance(render(VALUE, template), str)


def test_columns_of_list_have_row_per_item() -> None:
    value = {"kind": "TaskList", "next": None, **VALUE}
    header, rows = columns(value, "ID:.id, X:['x.y'],N:{.n}")
    assert header == ["ID", "X", "N"]
    assert rows == [["a", "true", "1"], ["b", "<none>", "2"]]


def test_columns_of_object_have_one_row() -> None:
    value = {"kind": "Task", **VALUE}
    assert columns(value, "ALL:.tasks[0,1].id,NAME:.name") == (["ALL", "NAME"], [["a b", "é"]])


@pytest.mark.parametrize("spec", ["", "ID", "ID:", ":.id", "ID:.id,", "ID:{}"])
def test_columns_invalid_spec_is_user_error(spec: str) -> None:
    with pytest.raises(UserError, match=r'".*" is not of the form NAME:PATH'):
        columns({"kind": "Task"}, spec)
