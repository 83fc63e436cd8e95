"""Pods that controllers create from a template, and pods that only look like those."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from kubectl_sky.observe.pod_template import difference
from kubectl_sky.workloads.registry import BACKENDS

Json = dict[str, Any]
JOB: Json = {"metadata": {"name": "train-x", "namespace": "default"}, "spec": {"slotsPerWorker": 1}}
TEMPLATE: Json = {
    "automountServiceAccountToken": False,
    "containers": [
        {
            "name": "main",
            "image": "busybox:1.36",
            "command": ["sh", "/etc/kubectl-sky/start.sh"],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": ""}],
            "resources": {"limits": {"cpu": "0.5"}},
            "volumeMounts": [{"name": "scripts", "mountPath": "/etc/kubectl-sky"}],
            "readinessProbe": {"exec": {"command": ["ready"]}},
        }
    ],
    "volumes": [
        {"name": "scripts", "configMap": {"name": "train-x"}},
        {"name": "scratch", "emptyDir": {}},
    ],
}
TOKEN_SOURCES = [{"serviceAccountToken": {"path": "token"}}, {"configMap": {"name": "root-ca"}}]


def pod() -> Json:
    """Return the pod of the template as an API server shows it."""
    spec = copy.deepcopy(TEMPLATE)
    spec |= {
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": False,
        "hostname": "train-x-0",
        "nodeName": "worker-1",
        "priority": 0,
        "restartPolicy": "Never",
        "securityContext": {},
        "serviceAccount": "default",
        "serviceAccountName": "default",
        "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
    }
    main = spec["containers"][0]
    main |= {
        "imagePullPolicy": "IfNotPresent",
        "resources": {"limits": {"cpu": "500m"}, "requests": {"cpu": "500m"}},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    main["readinessProbe"] |= {"failureThreshold": 3, "periodSeconds": 10}
    main["readinessProbe"] |= {"successThreshold": 1, "timeoutSeconds": 1}
    del main["env"][1]["value"]
    field = {"fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}
    main["env"].append({"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": field}})
    spec["volumes"][0]["configMap"]["defaultMode"] = 420
    return spec


def compared(spec: Json, backend: str = "jobs") -> str:
    template, seen = {"metadata": {}, "spec": TEMPLATE}, {"metadata": {}, "spec": spec}
    path = difference(template, seen, lambda entry: BACKENDS[backend].adds(JOB, entry))
    return path.removeprefix("spec.")


def test_difference_pod_of_template_is_empty() -> None:
    assert compared(pod()) == ""


def test_difference_token_that_admission_adds_is_empty() -> None:
    spec = pod()
    spec["volumes"].append({"name": "kube-api-access-x1", "projected": {"sources": TOKEN_SOURCES}})
    folder = "/var/run/secrets/kubernetes.io/serviceaccount"
    mount = {"name": "kube-api-access-x1", "mountPath": folder}
    spec["containers"][0]["volumeMounts"].append(mount)
    assert compared(spec) == ""
    mount["mountPath"] = "/usr/bin"
    assert compared(spec) == "containers[0].volumeMounts"


EXTRA = {"name": "extra", "image": "busybox:1.36", "command": ["cat"]}


def main(**fields: Any) -> Callable[[Json], object]:
    return lambda spec: spec["containers"][0].update(fields)


def to(**fields: Any) -> Callable[[Json], object]:
    return lambda spec: spec.update(fields)


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("containers[0].image", main(image="busybox:1.37")),
        ("containers[0].command[1]", main(command=["sh", "/evil.sh"])),
        ("containers[0].args", main(args=["evil"])),
        ("containers[0].lifecycle", main(lifecycle={"postStart": {"exec": {"command": ["x"]}}})),
        ("containers[0].livenessProbe", main(livenessProbe={"exec": {"command": ["x"]}})),
        ("containers[0].securityContext", main(securityContext={"privileged": True})),
        ("containers[0].envFrom", main(envFrom=[{"configMapRef": {"name": "evil"}}])),
        (
            "containers[0].env",
            lambda spec: spec["containers"][0]["env"].append({"name": "LD_PRELOAD", "value": "x"}),
        ),
        (
            "containers[0].env",
            lambda spec: spec["containers"][0]["env"][-1].update(
                {"name": "JOB_COMPLETION_INDEX", "value": "x", "valueFrom": None}
            ),
        ),
        (
            "containers[0].env",
            lambda spec: spec["containers"][0]["env"][-1].update(
                valueFrom={"configMapKeyRef": {"name": "evil", "key": "x"}}
            ),
        ),
        (
            "containers[0].volumeMounts[0].subPath",
            lambda spec: spec["containers"][0]["volumeMounts"][0].update(subPath="evil"),
        ),
        ("containers", lambda spec: spec["containers"].append(EXTRA)),
        ("initContainers", to(initContainers=[EXTRA])),
        ("shareProcessNamespace", to(shareProcessNamespace=True)),
        ("hostPID", to(hostPID=True)),
        ("serviceAccountName", to(serviceAccountName="evil")),
        ("automountServiceAccountToken", to(automountServiceAccountToken=True)),
        ("hostAliases", to(hostAliases=[{"ip": "10.0.0.1", "hostnames": ["example.org"]}])),
        ("aFieldOfTomorrow", to(aFieldOfTomorrow=True)),
        (
            "volumes[1].hostPath",
            lambda spec: spec["volumes"][1].update(hostPath={"path": "/"}, emptyDir=None),
        ),
        (
            "volumes[0].configMap.items",
            lambda spec: spec["volumes"][0]["configMap"].update(items=[{"key": "a", "path": "b"}]),
        ),
    ],
)
def test_difference_pod_of_another_program_is_its_field(
    path: str, change: Callable[[Json], object]
) -> None:
    spec = pod()
    change(spec)
    assert compared(spec) == path


@pytest.mark.parametrize(
    ("text", "path"),
    [("12", ""), ("mine", ""), ("a[$(evil)]", "metadata.annotations.example.com/a")],
)
def test_difference_annotation_in_variable_is_index_or_of_template(text: str, path: str) -> None:
    field = {"fieldRef": {"fieldPath": "metadata.annotations['example.com/a']"}}
    spec = {"containers": [{"name": "main", "env": [{"name": "RANK", "valueFrom": field}]}]}
    template = {"metadata": {"annotations": {"example.com/a": "mine"}}, "spec": spec}
    seen = {"metadata": {"annotations": {"example.com/a": text}}, "spec": spec}
    assert difference(template, seen, lambda entry: False) == path


def test_difference_mpijob_accepts_only_what_the_operator_adds() -> None:
    spec = pod()
    container = spec["containers"][0]
    env = {
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_set_default_slots": "1",
        "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
        "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
    }
    container["env"][-1:] = [{"name": name, "value": value} for name, value in env.items()]
    spec["volumes"].append({"name": "ssh-auth", "secret": {"secretName": "train-x-ssh"}})
    mounts = {"ssh-auth": "/etc/kubectl-sky-ssh", "mpi-job-config": "/etc/mpi"}
    container["volumeMounts"] += [{"name": n, "mountPath": path} for n, path in mounts.items()]
    spec["dnsConfig"] = {"searches": ["train-x.default.svc.cluster.local"]}
    assert compared(spec, "mpijob") == ""
    assert compared(spec) == "containers[0].env"
    spec["volumes"][-1]["secret"]["secretName"] = "evil-ssh"
    assert compared(spec, "mpijob") == "volumes"
    container["env"][-1]["value"] = "-o ProxyCommand=evil"
    assert compared(spec, "mpijob") == "containers[0].env"
