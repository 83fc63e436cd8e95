"""The default StorageClass of a cluster, as `doctor` and `submit` see it."""

import pytest

from kubectl_sky.observe.volumes import default_class


@pytest.mark.parametrize("group", ["storageclass", "storageclass.beta"])
def test_default_class_is_found_by_both_annotations(group: str) -> None:
    marked = {f"{group}.kubernetes.io/is-default-class": "true"}
    fast = {"metadata": {"name": "fast", "annotations": marked}}
    slow = {"metadata": {"name": "slow", "annotations": dict.fromkeys(marked, "false")}}
    assert default_class([{"metadata": {"name": "none"}}, slow, fast]) == "fast"
    assert default_class([slow]) == ""
