"""The objects that the pods of workloads need to start."""

from kubectl_sky.words.kinds import CONFIG_MAP, PVC, SECRET
from kubectl_sky.workloads.references import references
from tests.builders import make_job


def test_references_are_named_once_and_without_optional_ones() -> None:
    optional = {"configMap": {"name": "absent", "optional": True}}
    volumes = [
        {"name": "a", "secret": {"secretName": "keys"}},
        {"name": "b", "projected": {"sources": [{"secret": {"name": "token"}}, optional]}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "data"}},
    ]
    env = [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "a"}}}]
    container = {"name": "main", "env": env, "envFrom": [{"configMapRef": {"name": "words"}}]}
    job = make_job()
    job["spec"] = {"template": {"spec": {"volumes": volumes, "containers": [container]}}}
    secrets = [(SECRET, "keys"), (SECRET, "token")]
    assert references([job, job]) == [*secrets, (PVC, "data"), (CONFIG_MAP, "words")]
