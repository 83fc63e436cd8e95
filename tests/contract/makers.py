"""Manifests for the contract tests, as small as the API server accepts them."""

from typing import Any

Json = dict[str, Any]


def make_config_map(name: str, namespace: str, **more: Any) -> Json:
    metadata = {"name": name, "namespace": namespace, "labels": {"of": "test"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata} | more


def make_job(name: str, namespace: str, **spec: Any) -> Json:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": {"of": "test"}},
        "spec": {"backoffLimit": 0, "template": {"spec": make_pod_spec("sleep 600")}} | spec,
    }


def make_pod_spec(script: str, **more: Any) -> Json:
    container = {
        "name": "main",
        "image": "busybox:1.36",
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script],
    }
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
    } | more


def make_pod(name: str, namespace: str, script: str, **spec: Any) -> Json:
    metadata = {"name": name, "namespace": namespace, "labels": {"of": "test"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": make_pod_spec(script, **spec),
    }


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
