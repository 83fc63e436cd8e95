"""A control plane with feature gates and pretended cluster nodes: no kubelet, no containers.

kwok answers for the cluster nodes: pods run as soon as they are scheduled.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cluster import cache, components, golang, machine, programs
from tests.cluster.api import request
from tests.cluster.components import USERS
from tests.cluster.place import Place
from tests.cluster.shell import Unavailable, absent, run
from tests.cluster.starter import Starter
from tests.cluster.target import OTHERS, Cluster

_KWOK = programs.MODULES / "kwok"
_STAGES = ("node/fast/node-initialize", "pod/fast/pod-ready", "pod/fast/pod-delete")


class Release(NamedTuple):
    """A Kubernetes release: the module that builds it, its gates, and the APIs that are off."""

    version: str
    module: str
    gates: tuple[str, ...] = ()
    apis: tuple[str, ...] = ()

    def program(self) -> Path:
        """Return the program that is all parts of a cluster, built once."""
        flags = f"-X k8s.io/component-base/version.gitVersion={self.version}"
        return golang.build(self.module, programs.MODULES / self.module, ".", flags)


# Of the scheduling of gangs. The suites of the other clusters have none of them.
_WORKLOADS = ("GenericWorkload", "WorkloadWithJob", "TopologyAwareWorkloadScheduling")
ALPHA = Release("v1.36.3", "kube", (*_WORKLOADS, "GangScheduling"), ("scheduling.k8s.io/v1alpha2",))
BETA = Release("v1.37.2", "kube-1.37", _WORKLOADS, ("scheduling.k8s.io/v1beta1",))


def prepare(release: Release) -> None:
    """Build what takes minutes. Raises Unavailable."""
    machine.prepare()
    release.program()
    programs.path("kwok")


class _Plane(Starter):
    """The programs of a control plane, without those of a node."""

    def start_plane(self, release: Release) -> None:
        place = self._place
        place.cgroup.create()
        for name in ("kubeconfig", "tokens.csv", "authentication.yaml"):
            (place.folder / name).write_text(components.files(place)[name])

        key = ["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout"]
        run([*key, "-out", place.folder / "accounts.key"])
        gates = f"--feature-gates={','.join(f'{gate}=true' for gate in release.gates)}"
        apis = f"--runtime-config={','.join(f'{api}=true' for api in release.apis)}"

        self._run("etcd", [self._kube, *components.etcd(place)])
        self._run("apiserver", [self._kube, *components.api_server(place), gates, apis])
        self._wait("the API server", lambda: request(place, "GET", "/readyz") == {})
        silent = "--node-monitor-grace-period=1h"  # kwok sends no heartbeats
        self._run("controllers", [self._kube, *components.controllers(place), gates, silent])
        self._run("scheduler", [self._kube, *components.scheduler(place), gates])

        stages = golang.sources(_KWOK, "sigs.k8s.io/kwok") / "kustomize" / "stage"
        texts = [(stages / f"{name}.yaml").read_text() for name in _STAGES]
        (place.folder / "stages.yaml").write_text("---\n".join(texts))
        config = shutil.copy(place.kubeconfig, place.folder / "kwok-kubeconfig")
        flags = [f"--config={place.folder / 'stages.yaml'}", "--manage-all-nodes=true"]
        self._run("kwok", [str(programs.path("kwok")), f"--kubeconfig={config}", *flags])

    def reap(self) -> None:
        """Wait for the programs, which have been killed."""
        for process in self._processes.values():
            process.wait(60)

    def add_node(self, name: str, labels: Mapping[str, str], size: Mapping[str, str]) -> None:
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}
        status = {"capacity": {"pods": "20", **size}, "allocatable": {"pods": "20", **size}}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
        request(self._place, "POST", "/api/v1/nodes", node)

        def ready() -> bool:
            item: Any = request(self._place, "GET", f"/api/v1/nodes/{name}")
            conditions = item["status"].get("conditions", ())
            is_ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
            return is_ready and not item["spec"].get("taints")  # a controller removes it later

        self._wait(f"the node {name}", ready)


@contextmanager
def plane(release: Release, nodes: Mapping[str, Mapping[str, str]]) -> Iterator[Cluster]:
    """Run a control plane whose cluster nodes, by name with their labels, have 4 CPUs each."""
    prepare(release)
    with cache.lock("clusters"):
        machine.sweep()
        place = Place.claim()
        cache.own(place.folder / "owner")

    starter = _Plane(place, release.program())
    try:
        starter.start_plane(release)
        for name, labels in nodes.items():
            starter.add_node(name, labels, {"cpu": "4", "memory": "16Gi"})
        users = {name: USERS[name][0] for name in OTHERS}
        yield Cluster(place.kubeconfig, machine.kubectl(), "plane", users)
    finally:
        machine.down(place)
        starter.reap()


RELEASES = {"1.36": ALPHA, "1.37": BETA}
RACKS = {"n1": {"rack": "r1"}, "n2": {"rack": "r1"}, "n3": {"rack": "r2"}}
_missing = pytest.StashKey[dict[str, str]]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what takes minutes before the first test, whose time is limited."""
    missing = session.config.stash.setdefault(_missing, {})
    if session.config.option.collectonly:
        return
    specs = [getattr(item, "callspec", None) for item in session.items]
    used = {spec.params.get("gated_cluster") for spec in specs if spec}
    capture = session.config.pluginmanager.getplugin("capturemanager")
    for name in filter(None, used):
        with capture.global_and_fixture_disabled():
            try:
                prepare(RELEASES[name])
            except Unavailable as error:
                missing[name] = str(error)


@pytest.fixture(scope="module", params=RELEASES)
def gated_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A control plane that schedules gangs, with three cluster nodes in two racks."""
    if reason := request.config.stash[_missing].get(request.param):
        absent(f"no Kubernetes {request.param}: {reason}")
    with plane(RELEASES[request.param], RACKS) as cluster:
        yield cluster
