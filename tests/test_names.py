"""Names and labels are valid in Kubernetes for any text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_sky.errors import UserError
from kubectl_sky.words import names, owners
from kubectl_sky.words.owners import User

LABEL = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?\Z")
DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")


@given(st.text())
def test_label_value_of_random_text_is_valid(text: str) -> None:
    value = names.label_value(text)
    assert len(value) <= 63 and LABEL.match(value)


@given(st.text(), st.integers(0, 99_999))
def test_object_names_of_random_text_are_valid(text: str, index: int) -> None:
    name = names.dns_label(text)
    job = names.node_object(name, "bcdf2345", index, 2)
    assert len(job) <= 63 and DNS_1035.match(job)
    assert DNS_1035.match(names.task_object(name, "bcdf2345"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("user@example.com", "user-example.com"),
        ("alice", "alice"),
        ("system:serviceaccount:ns:bot", "system-serviceaccount-ns-bot"),
        ("-x-", "x"),
        ("…", ""),
    ],
)
def test_label_value_of_username_replaces_characters(text: str, value: str) -> None:
    assert names.label_value(text) == value


def test_node_object_name_has_rank_suffix() -> None:
    assert names.node_object("train", "abc12345", 0, 1) == "train-abc12345"
    assert names.node_object("train", "abc12345", 1, 2) == "train-abc12345-node-1"


def test_object_name_of_default_name_has_id_once() -> None:
    assert names.task_object("task-abc12345", "abc12345") == "task-abc12345"
    assert names.node_object("task-abc12345", "abc12345", 1, 2) == "task-abc12345-node-1"


def metadata(label: str, original: str | None) -> tuple[dict[str, str], dict[str, str]]:
    annotations = {"kubectl-sky/user": original} if original else {}
    return {"username": label}, annotations


def test_owns_users_with_same_label_are_distinguished() -> None:
    alike = User("a@b")
    assert alike.owns(*metadata("a-b", "a@b"))
    assert not alike.owns(*metadata("a-b", "a-b"))
    assert not alike.owns(*metadata("a-b", None)), "without an annotation, the label is the name"
    assert User("a-b").owns(*metadata("a-b", None))
    assert not alike.owns(*metadata("c", None))
    assert not alike.owns({}, {})


def test_selector_joins_labels() -> None:
    assert (
        names.selector({"task-id": "x", "skypilot-task": "true"}) == "task-id=x,skypilot-task=true"
    )


def test_owner_without_ascii_letter_is_refused_with_the_reason() -> None:
    with pytest.raises(UserError) as caught:
        owners.name_owner("李明")
    assert caught.value.what == 'invalid user name "李明"'
    assert "ASCII letter or digit" in caught.value.hint
