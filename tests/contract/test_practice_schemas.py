"""The schemas of the practice cluster equal those of the real server of the same version."""

import json

from kubectl_sky.cluster.session import Connection, Session
from kubectl_sky_practice import schemas
from tests.cluster.target import Cluster
from tests.contract.practice_schemas import of_server


def test_schemas_equal_real_cluster(both: tuple[Cluster, Cluster]) -> None:
    session = Session.connect(Connection(kubeconfig=str(both[0].kubeconfig)))
    real = of_server(session)
    kept = schemas.definitions()
    assert sorted(real) == sorted(kept)
    for name, schema in real.items():
        assert json.dumps(kept[name], sort_keys=True) == json.dumps(schema, sort_keys=True), (
            f"{name}: write them anew with `python -m tests.contract.practice_schemas`"
        )
