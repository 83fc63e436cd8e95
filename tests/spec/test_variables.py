"""References to existing Secrets."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_sky.spec.task import task_of
from kubectl_sky.spec.unsupported import refusals
from kubectl_sky.spec.validate import validate
from kubectl_sky.spec.variables import SecretReference, mask
from kubectl_sky.words.secret import Secret
from tests.spec.documents import make_document, problems, read

MANAGED = "managed_secrets"
CASES: list[tuple[dict[str, Any], list[SecretReference]]] = [
    ({"secrets": ["secrets:HF_TOKEN"]}, [SecretReference("HF_TOKEN")]),
    ({"secrets": ["secrets:personal.A", "secrets:A"]}, [SecretReference("A")]),
    ({"secrets": {"secrets:A": None, "B": "x"}}, [SecretReference("A")]),
    ({"secrets": {"B": "x"}, MANAGED: ["A", "B"]}, [SecretReference("A", None, MANAGED)]),
    (
        {MANAGED: [{"key.pem": {"mount_path": "~/.keys/a"}}, {"C": None}]},
        [SecretReference("key.pem", "~/.keys/a", MANAGED), SecretReference("C", None, MANAGED)],
    ),
]


@pytest.mark.parametrize(("fields", "expected"), CASES)
def test_secret_references_are_parsed(
    fields: dict[str, Any], expected: list[SecretReference]
) -> None:
    document = make_document(**fields)
    found = [str(one) for one in validate(document) if "None" not in str(fields)]
    assert [one for one in found if "error" in one] == []
    assert list(task_of(document).existing_secrets) == expected


def test_secret_reference_name_is_valid_in_kubernetes() -> None:
    assert SecretReference("HF_TOKEN").name == "hf-token"


def test_secrets_with_values_are_no_references() -> None:
    document = make_document(secrets={"secrets:A": None, "B": "x", "C": None})
    assert task_of(document).secrets == {"B": Secret("x"), "C": None}


REFUSED = {
    "secrets: ['secrets:my.token']": (
        "task.yaml:2:11: secrets[0]: not supported: no variable can be called this;"
        " letters, digits and _, no digit first"
    ),
    "secrets: {'secrets:my-token': }": (
        'task.yaml:2:11: secrets."secrets:my-token": not supported: no variable can be'
        " called this; letters, digits and _, no digit first"
    ),
    "managed_secrets: [a-b]": (
        "task.yaml:2:19: managed_secrets[0]: not supported: no variable can be called this;"
        " letters, digits and _, no digit first"
    ),
    "managed_secrets: [{'!': {mount_path: /x}}]": (
        'task.yaml:2:20: managed_secrets[0]."!": not supported: no Secret can be called'
        ' "!"; use letters, digits, - and .; a letter or digit first and last'
    ),
    "secrets: ['secrets:TOKEN_']": (
        "task.yaml:2:11: secrets[0]: not supported: no Secret can be called"
        ' "token-"; use letters, digits, - and .; a letter or digit first and last'
    ),
    "secrets: {5: x}": (
        "task.yaml:2:11: secrets.5: not supported: no variable can be called this;"
        " letters, digits and _, no digit first"
    ),
    "secrets: {my-token: }": (
        "task.yaml:2:11: secrets.my-token: not supported: no variable can be called this;"
        " letters, digits and _, no digit first"
    ),
}  # fmt: skip


@pytest.mark.parametrize("field", REFUSED)
def test_secret_invalid_name_is_refused(field: str) -> None:
    (document,) = read("run: x\n" + field)
    assert [str(one) for one in refusals(document)] == [REFUSED[field]]


@pytest.mark.parametrize("prefix", ["secrets:", "personal.", "workspace.", "global."])
def test_value_of_existing_secret_is_error(prefix: str) -> None:
    assert problems(f"run: x\nsecrets: {{'{prefix}TOKEN': hunter2}}") == [
        f'task.yaml:2:{len(prefix) + 20}: secrets."{prefix}TOKEN": a name that begins with {prefix}'
        " refers to an existing secret; remove the value, or write TOKEN as the name"
    ]


@pytest.mark.parametrize(
    "field",
    [
        "[{TOKEN: hunter2}]",
        "[{TOKEN: {value: hunter2}}]",
        "[{TOKEN: {mount_path: [hunter2]}}]",
        "[[hunter2]]",
        "{TOKEN: hunter2}",
        "hunter2",
    ],
)
def test_managed_secret_with_value_is_error_without_the_value(field: str) -> None:
    (problem,) = problems(f"run: x\nmanaged_secrets: {field}")
    assert "managed_secrets" in problem
    assert "hunter2" not in problem


@pytest.mark.parametrize(
    "name", ["AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "PGPASSWORD", "DB_PASSWORD", "client_secret"]
)
def test_variable_named_like_secret_is_warned(name: str) -> None:
    assert problems(f"run: x\nenvs: {{{name}: a}}", "warning") == [
        f"task.yaml:2:8: envs.{name}: warning: looks like a secret, and everybody who may read pods"
        f" can read envs; move it to secrets: {{{name}: null}}; export {name}=…,"
        f" then --secret {name}"
    ]


@pytest.mark.parametrize(
    "variable", ["HF_TOKEN: null", "HF_TOKEN: ''", "MAX_TOKEN: 5", "TOKENIZER: a", "KEY_FILE: /a"]
)
def test_variable_without_secret_is_not_warned(variable: str) -> None:
    assert problems(f"run: x\nenvs: {{{variable}}}", "warning") == []


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("DB_PASS", "hunter2", "REDACTED"),
        ("MYSQL_PASSWD", "hunter2", "REDACTED"),
        ("GCP_CREDENTIALS", "hunter2", "REDACTED"),
        ("OPENAI_APIKEY", "hunter2", "REDACTED"),
        ("apiKey", "hunter2", "REDACTED"),
        ("HF_TOKEN_2", "hunter2", "REDACTED"),
        ("DATABASE_URL", "postgres://u:hunter2@h/db", "postgres://REDACTED@h/db"),
        ("PROXY", "a https://hunter2@h b", "a https://REDACTED@h b"),
        ("MAX_TOKENS", "512", "512"),
        ("TOKENIZER", "bert", "bert"),
        ("COMPASSES", "2", "2"),
        ("URL", "http://h:80/a b@c", "http://h:80/a b@c"),
    ],
)
def test_mask_hides_secrets_by_name_and_logins_of_urls(name: str, text: str, shown: str) -> None:
    assert mask(name, text) == shown


def test_managed_secret_relative_mount_path_is_error() -> None:
    assert problems("run: x\nmanaged_secrets: [{A: {mount_path: a/b}}]") == [
        "task.yaml:2:36: managed_secrets[0].A.mount_path: expected an absolute path such as /data"
    ]


def test_managed_secrets_with_paths_of_other_mounts_are_errors() -> None:
    text = (
        "run: x\nvolumes: {/a: v}\nmanaged_secrets:\n- A: {mount_path: /a}\n"
        "- B: {mount_path: /b}\n- C: {mount_path: /b}\n"
    )
    assert problems(text) == [
        "task.yaml:4:19: managed_secrets[0].A.mount_path: another mount has this path",
        "task.yaml:6:19: managed_secrets[2].C.mount_path: another mount has this path",
    ]


@given(
    st.lists(st.text().map("secrets:{}".format)) | st.dictionaries(st.text(), st.none()),
    st.lists(
        st.text()
        | st.dictionaries(
            st.text(),
            st.fixed_dictionaries({}, optional={"mount_path": st.text()}) | st.text(),
            max_size=1,
        )
    ),
)
def test_secret_random_names_are_parsed_or_refused(secrets: Any, managed: Any) -> None:
    document = make_document(secrets=secrets, managed_secrets=managed)
    errors = [one for one in validate(document) if one.severity == "error"]
    if not errors and not refusals(document):
        for one in task_of(document).existing_secrets:
            assert one.name.isascii() and one.name
