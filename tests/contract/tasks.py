"""Tasks of many fields, all of them right, with the strings that are hardest to write."""

from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]

HOSTILE = (
    "{{ task.id }}", "{% raw %}", "$(touch /tmp/x)", "`id`", "a: b\n- c", "'", '"', "\\", "# no",
    "---", "%YAML", "!!python/none", "yes", "0755", "12:30:45", "~", "null", "\u2028", "\u0085",
    "\t", " ", "", "é😀", "\r\n", "*a", "&a", "<<", "$(HOSTNAME)", "$$", "${X}", "\x1b[31m",
)  # fmt: skip
words = st.sampled_from(HOSTILE) | st.text(max_size=40).filter(lambda text: "\x00" not in text)
variables = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True).map("V".__add__)
small = st.from_regex(r"[a-z]([a-z0-9-]{0,12}[a-z0-9])?", fullmatch=True)
labels = st.dictionaries(
    small | small.map("example.com/{}".format),
    st.from_regex(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,30}[A-Za-z0-9])?)?", fullmatch=True),
    max_size=3,
)
notes = st.dictionaries(small.map("example.com/{}".format), words, max_size=3)
sizes = st.sampled_from([1, "2+", "500m", 0.5, "4", 3.0])
memories = st.sampled_from([1, "2+", "512Mi", "4Gi", "3.5", "16GB"])
accelerators = st.sampled_from(
    [2, "A100:2", "A100-80GB", "80GB+", {"L4": 1}, ["L4", "A10G:2"], {"V100": 1, "T4": 1},
     "tpu-v6e-8", "MI300X:8", "A100:0.5", "Trainium:1"]
)  # fmt: skip


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    """A mapping with any of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


recovery = some(
    max_restarts_on_errors=st.integers(0, 9),
    recover_on_exit_codes=st.lists(st.integers(1, 255), min_size=1, max_size=4, unique=True),
)
resources = some(
    cpus=sizes,
    memory=memories,
    accelerators=accelerators,
    disk_size=st.sampled_from([10, "50", "20GB", 256]),
    use_spot=st.booleans(),
    instance_type=st.sampled_from(["4CPU--16GB", "2CPU--8GB--L4:1", "p4d.24xlarge"]),
    image_id=st.sampled_from(
        ["python:3.13-slim", "docker:ghcr.io/x/y:v1", "busybox@sha256:" + "a" * 64]
    ),
    labels=labels,
    priority=st.integers(-1000, 1000),
    infra=st.sampled_from(["k8s", "kubernetes", "aws", "*"]),
    job_recovery=recovery,
    autostop=some(down=st.just(True), idle_minutes=st.integers(0, 60)),
    network_tier=st.sampled_from(["best", "standard"]),
)  # fmt: skip
candidates = st.lists(some(cpus=sizes, accelerators=accelerators), min_size=1, max_size=3)
mounts = st.one_of(
    small,
    some(mode=st.just("ro"), sub_path=st.just("runs/1")).flatmap(
        lambda more: small.map(lambda name: more | {"name": name})
    ),
    some(labels=labels).map(lambda more: more | {"size": "1Gi"}),
)
mount_paths = small.map("/mnt/{}".format) | small.map("~/{}".format)
containers = some(
    env=st.lists(
        st.fixed_dictionaries({"name": variables, "value": words}),
        max_size=3,
        unique_by=lambda one: one["name"],
    ),
    imagePullPolicy=st.sampled_from(["Always", "IfNotPresent"]),
    workingDir=st.just("/tmp"),
    securityContext=st.just({"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}),
)
pods = some(
    metadata=some(labels=labels, annotations=notes),
    spec=some(
        containers=containers.map(lambda one: [one | {"name": "ray-node"}]),
        nodeSelector=labels,
        tolerations=st.just([{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]),
        schedulerName=small,
        hostNetwork=st.booleans(),
        terminationGracePeriodSeconds=st.integers(0, 600),
        runtimeClassName=small,
    ),
)
kubernetes = some(
    pod_config=pods,
    custom_metadata=some(labels=labels, annotations=notes),
    remote_identity=small,
    set_pod_resource_limits=st.sampled_from([True, False, 1.5]),
    quota=st.fixed_dictionaries({"queue": small}),
    provision_timeout=st.integers(-1, 600),
)
tasks: st.SearchStrategy[Json] = st.builds(
    lambda run, more: {"run": run} | more,
    words.filter(str.strip),
    some(
        name=st.from_regex(r"[A-Za-z]([A-Za-z0-9._-]{0,80}[A-Za-z0-9])?", fullmatch=True),
        num_nodes=st.integers(1, 3),
        setup=words.filter(str.strip),
        envs=st.dictionaries(variables, words, max_size=4),
        secrets=st.dictionaries(variables.map("S".__add__), words, max_size=3),
        volumes=st.dictionaries(mount_paths, mounts, max_size=3),
        resources=resources
        | st.builds(lambda one, more: one | {"any_of": more}, some(memory=memories), candidates)
        | st.builds(lambda one, more: one | {"ordered": more}, some(memory=memories), candidates),
        config=kubernetes.map(lambda found: {"kubernetes": found}),
    ),
)
