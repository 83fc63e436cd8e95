"""kubectl prints the same for the practice cluster and a real one, except known differences."""

from pathlib import Path

import pytest

from tests.cluster import machine
from tests.cluster.shell import Broken, Unavailable
from tests.cluster.target import Cluster
from tests.practice import known
from tests.practice.conformance import Kubectl, Scene, compare
from tests.practice.known import Difference
from tests.practice.scenes import SCENES


@pytest.fixture(scope="module")
def sides(
    both: tuple[Cluster, Cluster], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Kubectl, Kubectl]:
    """Return kubectl, of the version of the servers, for both clusters."""
    try:
        program = machine.kubectl()
    except (Broken, Unavailable, OSError) as error:
        pytest.skip(f"NO KUBECTL of the clusters' version: {error}")
    real, practice = (
        Kubectl(program, cluster.kubeconfig, tmp_path_factory.mktemp("home")) for cluster in both
    )
    return real, practice


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_kubectl_scene_matches_known_differences(
    scene: Scene, sides: tuple[Kubectl, Kubectl]
) -> None:
    found = compare(scene, *sides)
    if known.UPDATING:
        known.keep(scene, found)
    expected = known.of_scene(scene)
    for title in {**found, **expected}:
        assert found.get(title) == expected.get(title), (
            f"kubectl {title}: `UPDATE_GOLDEN=1` writes differences.yaml anew, for review"
        )


def test_differences_all_have_known_reason() -> None:
    assert {one.why for one in Difference.read()} <= set(known.REASONS)


def test_reasons_are_all_used() -> None:
    assert set(known.REASONS) <= {one.why for one in Difference.read()}


def test_practice_readme_table_is_up_to_date() -> None:
    if known.UPDATING:
        Path(known.README).write_text(known.readme())
    assert known.README.read_text() == known.readme()


def test_scene_titles_are_unique() -> None:
    for scene in SCENES:
        titles = [title for title, _ in scene.titled()]
        assert len(set(titles)) == len(titles)
    assert len({scene.name for scene in SCENES}) == len(SCENES)
