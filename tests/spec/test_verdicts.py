"""Over 2,000 texts of every field: we agree with SkyPilot, or report the difference."""

import pytest

from kubectl_sky.spec.compat import differences
from tests.spec import verdicts
from tests.spec.documents import read

ROWS = verdicts.table()


def test_verdicts_table_covers_language() -> None:
    refused = [said for said in ROWS.values() if said]
    assert len(ROWS) > 2000
    assert len(refused) > 500
    assert len(ROWS) - len(refused) > 500
    assert not [
        said for said in refused if "ConnectionError" in said
    ]  # a network error while recording


def test_verdicts_agree_with_skypilot() -> None:
    wrong = {text: verdicts.disagreement(text, said) for text, said in ROWS.items()}
    assert {text: told for text, told in wrong.items() if told} == {}


def test_verdicts_stricter_rules_all_have_case() -> None:
    accepted = [text for text, said in ROWS.items() if not said]
    told = [str(found) for text in accepted for found in verdicts.ours(text)[0]]
    assert [words for words in verdicts.STRICTER if not any(words in one for one in told)] == []


# Known differences: SkyPilot refuses, we accept, with our message.
ACCEPTED = {
    "envs:": "envs: SkyPilot fails if envs is empty; leave it out",
    "inputs:": "inputs: SkyPilot fails if inputs is empty; leave it out",
    "service: {readiness_probe: ~}": (
        "service.readiness_probe: SkyPilot fails if readiness_probe is empty;"
        " leave it out"
    ),
    "resources: {cpus: 500m}": (
        "resources.cpus: SkyPilot does not accept a Kubernetes quantity here; such as 0.5 or 4+"
    ),
    "resources: {memory: 16G}": (
        "resources.memory: SkyPilot does not know this unit; such as 8, 16GB or 512Mi"
    ),
    "resources: {disk_size: 100G}": (
        "resources.disk_size: SkyPilot allows only whole GB; such as 256 or 1TB"
    ),
    "resources: {disk_size: 1500MB}": (
        "resources.disk_size: SkyPilot allows only whole GB; such as 256 or 1TB"
    ),
    "resources: {accelerators: 8}": (
        "resources.accelerators: SkyPilot requires a GPU's name, and its count as a number;"
        " such as V100:2"
    ),
    "resources: {gpus: {A100: '8'}}": (
        "resources.gpus: SkyPilot requires a GPU's name, and its count as a number; such as V100:2"
    ),
    "resources: {accelerators: [{A100: 8}]}": (
        "resources.accelerators: SkyPilot requires a GPU's name, and its count as a number;"
        " such as V100:2"
    ),
    "resources: {any_of: [{accelerators: {L4, T4}}]}": (
        "resources.any_of[0].accelerators: SkyPilot allows one kind of GPU here, with its name;"
        " such as V100:2"
    ),
    "resources: {any_of: [{cpus: ~}]}": (
        "resources.any_of[0].cpus: is empty, which SkyPilot refuses here; leave it out"
    ),
    "resources: {infra: k8s, any_of: [{cloud: aws}, {cpus: 1}]}": (
        "resources.any_of[0]: SkyPilot merges this with the fields above;"
        " infra cannot be combined with cloud, region or zone"
    ),
    "resources: {accelerators: [A100, V100], ordered: [{cpus: 1}]}": (
        "resources.accelerators: SkyPilot allows only one GPU with these candidates;"
        " name it in each"
    ),
    "resources: {any_of: [{priority: 1}, {priority: 2}]}": (
        "resources.any_of: SkyPilot requires the same priority in all candidates"
    ),
    "resources: {infra: aws, accelerators: tpu-v6e-8}": (
        "resources.accelerators: SkyPilot supports TPUs only on gcp and kubernetes"
    ),
    "resources: {labels: {a: 1}}": (
        "resources.labels: SkyPilot allows only text; put the values in quotes"
    ),
    "resources: {cloud: k8s}": (
        "resources.cloud: SkyPilot does not know this short name; infra: k8s"
    ),
    "resources: {autostop: 10s}": (
        "resources.autostop: SkyPilot counts whole minutes; such as 1m"
    ),
    "resources: {accelerators: A100, gpus: ~}": (
        "resources.gpus: SkyPilot allows accelerators or gpus, not both; an empty field counts as"
        " set; leave it out"
    ),
    "x-anchors: {a: &a 1}": (
        "x-anchors: SkyPilot does not allow custom fields; put anchors where they are used"
    ),
    "envs: {A: '\"'}\nworkdir: $A": (
        "workdir: SkyPilot cannot substitute a variable that has quotes, backslashes or line breaks"
    ),
    "envs: {SKYPILOT_DOCKER_USERNAME: u, SKYPILOT_DOCKER_SERVER: s}\n"
    "secrets: {SKYPILOT_DOCKER_PASSWORD: p}": (
        "secrets.SKYPILOT_DOCKER_PASSWORD: SkyPilot requires all of these variables in"
        " envs, or all in secrets"
    ),
}  # fmt: skip


@pytest.mark.parametrize("fields", ACCEPTED)
def test_compat_known_difference_has_expected_text(fields: str) -> None:
    errors, narrower = verdicts.ours(f"run: x\n{fields}\n")
    assert errors == []
    said = [str(found).split(": ", 1)[1] for found in narrower]
    assert said == [ACCEPTED[fields]]
    assert all(found.line > 1 for found in narrower)


def test_compat_group_names_are_stricter_in_skypilot() -> None:
    text = "{name: p.q, execution: parallel}\n---\n{name: a, run: x}\n---\n{name: b, run: y}\n"
    header, *tasks = read(text)
    said = "SkyPilot allows only letters, digits, - and _ in a group"
    assert [found.message for found in differences(header)] == [said]
    assert [found for task in tasks for found in differences(task)] == []


def test_compat_volume_size_is_compared() -> None:
    (volume,) = read("name: v\ntype: k8s-pvc\nsize: 10Gi\n")
    assert differences(volume) == []
    (small,) = read("name: v\ntype: k8s-pvc\nsize: 512Mi\n")
    assert [str(found) for found in differences(small)] == [
        "task.yaml:3:7: size: SkyPilot needs a size of 1Gi or more"
    ]
