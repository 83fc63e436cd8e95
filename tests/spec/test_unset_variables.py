"""Variables in fields that nothing sets."""

import pytest

from kubectl_sky.spec.validate import validate
from tests.spec.documents import problems, read


@pytest.mark.parametrize(
    "field",
    [
        'file_mounts: {"/tmp/${X}": ./sub}',
        'file_mounts: {/a: "${X}/x"}',
        'file_mounts: {SCRATCH: "https://example.com/${X}"}',
        'file_mounts: {/a: "s3://${X}/a"}',
        'service: {readiness_probe: "/$X/ok"}',
        'workdir: {url: "https://github.com/${X}/x.git"}',
        "workdir: ${X}",
        'volumes: {/v: "${X}"}',
    ],
)
def test_variable_that_is_not_set_is_one_error_with_its_name(field: str) -> None:
    (problem,) = problems(f"envs: {{Y: 1}}\nrun: a\n{field}\n")
    assert problem.startswith("task.yaml:3:")
    assert problem.endswith("the variable X is not set; set it in envs, or with --env X=VALUE")
    assert problems(f"envs: {{X: a}}\nrun: a\n{field}\n") == []


@pytest.mark.parametrize(
    "field", ['file_mounts: {/a: "./$NODE_RANK"}', "volumes: {/v: $NUM_NODES}"]
)
def test_variable_of_node_is_error_in_field(field: str) -> None:
    (problem,) = problems(f"run: a\n{field}\n")
    assert problem.endswith(" is set in setup and run only")


def test_text_with_dollar_is_no_variable() -> None:
    probe = "{path: /, post_data: {text: costs $five or 5$}}"
    assert problems(f"run: a\nservice: {{readiness_probe: {probe}}}\n") == []


@pytest.mark.parametrize(
    ("value", "name"), [("/opt/bin:$PATH", "$PATH"), ("${key}", "${key}"), ("a $5 b$c", "")]
)
def test_variable_in_value_of_envs_is_warned(value: str, name: str) -> None:
    (document,) = read(f"run: a\nenvs: {{OUT: '{value}'}}\n")
    warning = f"task.yaml:2:13: envs.OUT: warning: {name} is not substituted: values of envs are"
    warning += " literal; set OUT in run, such as: export OUT=…"
    assert [str(problem) for problem in validate(document)] == ([warning] if name else [])
