"""The mark of tests that only a real cluster can answer."""

import pytest

ON_REAL = pytest.mark.parametrize(
    "cluster", [pytest.param("real", marks=pytest.mark.cluster)], indirect=True
)
