"""The programs that make up the cluster of this machine: their settings and command lines."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from tests.cluster.images import PAUSE
from tests.cluster.packages import CNI
from tests.cluster.place import Place

# What the node says that it has, so that the tests are the same on every machine: the scheduler and
# the kubelet go by it, and the pods, which mostly wait, share the cores that there are.
CPUS = "16"
GPUS = {"nvidia.com/gpu": "8"}
USERS = {
    "test": ("admin", "system:masters"),
    "alice": ("alice@example.com", "team-a"),
    "bob": ("bob@example.com", "team-b"),
}

AUTHENTICATION = "authentication.yaml"  # beside the kubeconfig; read again when it changes

_FORWARDING = "/proc/sys/net/ipv4/conf/{}/forwarding"

_CONTAINERD = """\
version = 2
root = "{folder}/containerd/root"
state = "{folder}/containerd/state"
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true   # works without CAP_SYS_RESOURCE too
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      Root = "{folder}/runc"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni}"
    conf_dir = "{folder}/cni"
"""

_COREFILE = """\
cluster.local:53 {{
  bind {address}
  kubernetes cluster.local {{
    kubeconfig {kubeconfig} test
    ttl 1
  }}
}}
"""


def pretence() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the plural and the object of what writes CPUS where the kubelet writes its count."""
    group = "admissionregistration.k8s.io"
    name = {"name": "pretended-cpus"}
    what = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["nodes", "nodes/status"]}
    patches = (
        f'JSONPatch{{op: "add", path: "/status/{field}/cpu", value: "{CPUS}"}}'
        for field in ("capacity", "allocatable")
    )
    policy = {
        "matchConstraints": {"resourceRules": [what | {"operations": ["CREATE", "UPDATE"]}]},
        "mutations": [
            {"patchType": "JSONPatch", "jsonPatch": {"expression": f"[{', '.join(patches)}]"}}
        ],
        "reinvocationPolicy": "Never",
    }
    kind = "MutatingAdmissionPolicy"

    for made, spec in ((kind, policy), (f"{kind}Binding", {"policyName": name["name"]})):
        plural = "mutatingadmissionpolicies" if made == kind else "mutatingadmissionpolicybindings"
        yield plural, {"apiVersion": f"{group}/v1", "kind": made, "metadata": name, "spec": spec}


def trusting(*issuers: dict[str, Any]) -> dict[str, Any]:
    """Return what lets the API server accept tokens of issuers, whose users are their emails."""
    claims = {"username": {"claim": "email", "prefix": ""}}
    return {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        "jwt": [{"issuer": issuer, "claimMappings": claims} for issuer in issuers],
    }


def files(place: Place) -> dict[str, str]:
    """Return what must be in the cluster's folder before anything starts, by file name."""
    return {
        "cni/10-test.conflist": json.dumps(_network(place)),
        "containerd.toml": _CONTAINERD.format(folder=place.folder, pause=PAUSE, cni=CNI),
        "Corefile": _COREFILE.format(address=place.address, kubeconfig=place.kubeconfig),
        "kubeconfig": json.dumps(_kubeconfig(place)),
        "kubelet.yaml": json.dumps(kubelet_settings(place)),
        AUTHENTICATION: json.dumps(trusting()),
        "tokens.csv": "".join(
            f"{context}-token,{user},{context},{group}\n"
            for context, (user, group) in USERS.items()
        ),
    }


def containerd(place: Place) -> Sequence[str]:
    """The container runtime."""
    return ["containerd", "--config", f"{place.folder}/containerd.toml"]


def etcd(place: Place) -> Sequence[str]:
    """The store; nothing in it has to survive."""
    client = f"http://127.0.0.1:{place.ports.etcd}"
    peer = f"http://127.0.0.1:{place.ports.peer}"
    return [
        "etcd",
        f"--data-dir={place.folder}/etcd",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
    ]


def api_server(place: Place, kubelets: str = "Hostname") -> Sequence[str]:
    """The API server, with RBAC and the users of USERS; it reaches kubelets by such an address."""
    return [
        "kube-apiserver",
        f"--etcd-servers=http://127.0.0.1:{place.ports.etcd}",
        "--bind-address=127.0.0.1",
        f"--advertise-address={place.address}",
        f"--secure-port={place.ports.api}",
        f"--cert-dir={place.certificates}",
        f"--service-account-key-file={place.folder}/accounts.key",
        f"--service-account-signing-key-file={place.folder}/accounts.key",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--token-auth-file={place.folder}/tokens.csv",
        f"--authentication-config={place.folder}/{AUTHENTICATION}",
        "--authorization-mode=Node,RBAC",
        f"--service-cluster-ip-range={place.services}",
        "--allow-privileged=true",
        f"--kubelet-preferred-address-types={kubelets}",
    ]


def controllers(place: Place) -> Sequence[str]:
    """The controllers, among them one that provisions volumes as folders."""
    return [
        "kube-controller-manager",
        *_client(place),
        f"--service-account-private-key-file={place.folder}/accounts.key",
        f"--root-ca-file={place.certificates}/apiserver.crt",
        "--enable-hostpath-provisioner=true",
        "--horizontal-pod-autoscaler-sync-period=2s",
        "--secure-port=0",
        "--leader-elect=false",
    ]


def scheduler(place: Place) -> Sequence[str]:
    """The scheduler."""
    return ["kube-scheduler", *_client(place), "--secure-port=0", "--leader-elect=false"]


def dns(place: Place) -> Sequence[str]:
    """The names of Services and pods."""
    return ["coredns", "-conf", f"{place.folder}/Corefile"]


def relay(place: Place) -> Sequence[str]:
    """What leads pods to the API server, which listens on the loopback address only."""
    listen = f"TCP-LISTEN:{place.ports.api},bind={place.address},fork,reuseaddr"
    return ["socat", listen, f"TCP:127.0.0.1:{place.ports.api}"]


def router(place: Place) -> Iterator[Sequence[str]]:
    """What makes the network namespace that Services are routed to."""
    name = place.router
    inner = f"10.{place.number}.0.2"
    within = ["ip", "-n", name]
    yield ["ip", "netns", "add", name]
    yield ["ip", "link", "add", f"{name}r", "type", "veth", "peer", "name", "eth0", "netns", name]
    yield ["ip", "link", "set", f"{name}r", "master", place.bridge, "up"]
    yield [*within, "address", "add", f"{inner}/16", "dev", "eth0"]
    yield [*within, "link", "set", "eth0", "up"]
    yield [*within, "link", "set", "lo", "up"]
    yield forwarding(name)
    yield ["sh", "-c", f"echo 1 > {_FORWARDING.format(place.bridge)}"]
    yield ["ip", "route", "add", place.services, "via", inner]


def forwarding(namespace: str) -> Sequence[str]:
    """What lets a network namespace forward packets."""
    text = f"echo 1 > {_FORWARDING.format('all')}"
    return ["ip", "netns", "exec", namespace, "sh", "-c", text]


def proxy(place: Place) -> Sequence[str]:
    """The kube-proxy."""
    return [
        "kube-proxy",
        f"--kubeconfig={place.kubeconfig}",
        f"--master=https://{place.address}:{place.ports.api}",
        f"--hostname-override={place.node}",
        "--proxy-mode=iptables",
        "--healthz-bind-address=",
        "--metrics-bind-address=",
        "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-established=0s",
        "--conntrack-tcp-timeout-close-wait=0s",
    ]


def kubelet(place: Place) -> Sequence[str]:
    """The node."""
    return [
        "kubelet",
        f"--config={place.folder}/kubelet.yaml",
        f"--kubeconfig={place.kubeconfig}",
        f"--root-dir={place.folder}/kubelet",
        f"--cert-dir={place.folder}/kubelet/pki",
        f"--hostname-override={place.node}",
    ]


def _client(place: Place) -> Sequence[str]:
    return [f"--kubeconfig={place.kubeconfig}", "--kube-api-qps=300", "--kube-api-burst=500"]


def _network(place: Place) -> dict[str, Any]:
    addresses = {"subnet": str(place.subnet), "rangeStart": place.first_pod}
    bridge = {
        "type": "bridge",
        "bridge": place.bridge,
        "isGateway": True,
        "ipam": {
            "type": "host-local",
            "dataDir": f"{place.folder}/cni/addresses",
            "ranges": [[addresses]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    return {"cniVersion": "0.4.0", "name": place.bridge, "plugins": [bridge]}


def _kubeconfig(place: Place) -> dict[str, Any]:
    certificate = place.certificates / "apiserver.crt"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "test",
                "cluster": {"server": place.server, "certificate-authority": str(certificate)},
            }
        ],
        "users": [{"name": name, "user": {"token": f"{name}-token"}} for name in USERS],
        "contexts": [
            {"name": name, "context": {"cluster": "test", "user": name}} for name in USERS
        ],
        "current-context": "test",
    }


def kubelet_settings(place: Place) -> dict[str, Any]:
    """The configuration of the kubelet."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": place.listen,
        "port": place.ports.kubelet,
        "healthzPort": 0,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{place.cgroup.name}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [place.address],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": f"unix://{place.folder}/containerd.sock",
        "podLogsDir": f"{place.folder}/logs",
        "volumePluginDir": f"{place.folder}/volume-plugins",
        "makeIPTablesUtilChains": False,
        "maxPods": 250,
        "syncFrequency": "10s",
        "kubeAPIQPS": 300,
        "kubeAPIBurst": 500,
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "imagefs.available": "1%",
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "nodefs.inodesFree": "1%",
        },
    }
