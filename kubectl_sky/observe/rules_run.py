"""Explain why a node failed after it had started."""

from collections.abc import Mapping, Sequence

from kubectl_sky.observe.deletion import repair
from kubectl_sky.observe.escapes import plain
from kubectl_sky.observe.failure import (
    cause,
    last_error,
    missing_command_advice,
    program_lines,
)
from kubectl_sky.observe.findings import BEING_DELETED, SEE_LOGS, Rule, Stage, rank_flag
from kubectl_sky.observe.nodes import is_stuck
from kubectl_sky.observe.reasons import (
    DELETING,
    HELD,
    JOB_NOT_FOUND,
    NODE_LOST,
    NODE_TAINTED,
    POD_DELETED,
    POD_KEPT,
    POD_NOT_FOUND,
    TERMINATING,
    WAITING_FOR_FILES,
    WAITING_FOR_NODES,
)
from kubectl_sky.observe.signals import Signal, SignalSource, TaskSnapshot
from kubectl_sky.plan import resources
from kubectl_sky.words import names
from kubectl_sky.words.pod_objects import NO_POD, Pod, PodContainer, Probe
from kubectl_sky.workloads.workload import LATE, LATE_JOB_SET, MEETS_NOBODY, STOPPED

Words = Mapping[str, str]
_RAY_SIZE = "resources.limits of the container in config.kubernetes.pod_config"
_NOT_FOUND = ": not found", ": command not found"  # of shells
_LINES = 3  # log lines at the end of a finding


def _rank(signal: Signal) -> int:
    """Return the first node that has the symptom."""
    return signal.ranks[0] if signal.ranks else 0


def _pod(snapshot: TaskSnapshot, signal: Signal) -> Pod:
    return snapshot.pods.get(_rank(signal), NO_POD)


def _log(snapshot: TaskSnapshot, signal: Signal) -> Sequence[str]:
    """Return the last log lines of the node, or else its termination message, without colours."""
    lines = snapshot.logs.get(_rank(signal), ()) or signal.message.splitlines()
    return list(map(plain, lines))


def _last_lines(snapshot: TaskSnapshot, signal: Signal, groups: Words) -> Words:
    lines = program_lines(_log(snapshot, signal))
    text = " / ".join(line.strip() for line in lines[-_LINES:])
    return {"lines": f"; last lines: {text[-300:]}" if text else ""}


def _error(snapshot: TaskSnapshot, signal: Signal, groups: Words) -> Words:
    """Return the error that the log names last; without one, its last lines."""
    error = last_error(_log(snapshot, signal))
    return {"error": f": {error}"} if error else _last_lines(snapshot, signal, groups)


def _missing_command(snapshot: TaskSnapshot, signal: Signal, groups: Words) -> Words:
    advice = missing_command_advice(_pod(snapshot, signal), _log(snapshot, signal))
    return {**_error(snapshot, signal, groups), "advice": advice}


def _setup_error(snapshot: TaskSnapshot, signal: Signal, groups: Words) -> Words:
    """Return the error of `setup`, from the log of the node, and what to do."""
    lines = snapshot.logs.get(_rank(signal), ())
    text = cause(lines)
    pod = _pod(snapshot, signal)
    is_missing = groups["code"] == "127" or text.endswith(_NOT_FOUND)
    see_logs = SEE_LOGS.format(id=snapshot.task_id, rank=rank_flag(snapshot, signal))
    advice = missing_command_advice(pod, lines) if is_missing else see_logs
    return {"error": f": {text}" if text else "", "advice": advice}


def _probe(snapshot: TaskSnapshot, signal: Signal, groups: Words) -> Words:
    """Return how long a probe may fail, which field says so, and what to change."""
    kind = groups.get("which", signal.reason).lower()
    pod = _pod(snapshot, signal)
    containers = pod.spec.containers
    main = next((item for item in containers if item.name == names.CONTAINER), PodContainer())

    probes = {"startup": main.startup_probe, "readiness": main.readiness_probe}
    probe = probes.get(kind, main.liveness_probe) or Probe()
    period = probe.period_seconds
    seconds = probe.failure_threshold * period

    limit = f"{seconds} seconds"
    advice = "correct the probe in config.kubernetes.pod_config"
    if names.SERVICE in pod.metadata.labels:
        field = "consecutive_failure_threshold_timeout"
        if kind == "startup":
            field = "initial_delay_seconds"
            seconds = seconds - period
        limit = f"{field}: {seconds}"
        advice = f"correct service.readiness_probe: its path, or its {field}; or service.ports"

    about = f": {signal.about}" if signal.about else ""
    return {
        **_last_lines(snapshot, signal, groups),
        "limit": limit,
        "advice": advice,
        "failure": about,
    }


def _head_memory(snapshot: TaskSnapshot, signal: Signal, groups: Words) -> Words:
    pod = _pod(snapshot, signal)
    return {"limit": resources.container_limit(pod.spec, names.CONTAINER, "memory") or "not set"}


def _ended(name: str, reason: str, what: str, then: str, mere: bool = False) -> Rule:
    detail = _last_lines
    return Rule(name, Stage.RUN, SignalSource.ENDED, what, then, reason, detail=detail, mere=mere)


def _node(name: str, reason: str, what: str, then: str, mere: bool = False) -> Rule:
    return Rule(name, Stage.RUN, SignalSource.NODE, what, then, reason=reason, mere=mere)


def _waits(name: str, problem: str, then: str) -> Rule:
    message = rf"^(?P<text>[^,]*\({problem}\).*)"
    what = "waits to meet {text}"
    return Rule(name, Stage.START, SignalSource.NODE, what, then, WAITING_FOR_NODES, message)


def _gone(name: str, reason: str, message: str, what: str, then: str = "{advice}") -> Rule:
    source = SignalSource.POD
    return Rule(name, Stage.RUN, source, what, then, reason, message, detail=_restart)


def _restart(snapshot: TaskSnapshot, signal: Signal, groups: Words) -> Words:
    """Return how the node runs again: not before its pod is gone, if that is being deleted."""
    pod = _pod(snapshot, signal)
    if snapshot.recovers and pod and is_stuck(pod):
        command = f"`kubectl sky wait {snapshot.task_id} --continue`"
        advice = f"{command} removes it, so that another one starts; or {repair(_host(pod))}"
        return {"advice": advice}
    more = "" if snapshot.recovers else "; resources.job_recovery restarts such nodes"
    return {"advice": f"submit the task again{more}"}


def _deadline(name: str, source: SignalSource, owner: str, where: str) -> Rule:
    def words(snapshot: TaskSnapshot, signal: Signal, groups: Words) -> Words:
        limit = snapshot.status.causes.get(LATE) if snapshot.status else ""
        longer = "submit it with a longer max_duration, and let the program save checkpoints"
        return {
            "cause": limit or f"it exceeded activeDeadlineSeconds of its {owner}",
            "advice": longer if limit else f"increase activeDeadlineSeconds{where}",
        }

    reason = f"{LATE}|{LATE_JOB_SET}"
    return Rule(name, Stage.RUN, source, "{cause}", "{advice}", reason, detail=words)


def _host(pod: Pod) -> str:
    return pod.spec.node_name


def _image(snapshot: TaskSnapshot, signal: Signal, groups: Words) -> Words:
    pod = _pod(snapshot, signal)
    containers = pod.spec.containers
    image = next((item.image for item in containers if item.name == names.CONTAINER), "")
    return {"image": f"; image {image}" if image else ""}


def _logged(name: str, message: str, what: str, then: str) -> Rule:
    return Rule(name, Stage.RUN, SignalSource.LOG, what, then, message=message, detail=_image)


def _logged_last(name: str, message: str, what: str, then: str) -> Rule:
    """Return the rule of an error that programs also survive: no other one follows it."""
    return _logged(name, rf"(?:{message})(?!.*\n[^\n]*(?:Error|Exception)\b)", what, then)


RUN: tuple[Rule, ...] = (
    Rule(
        "setup-failed",
        Stage.SETUP,
        SignalSource.ENDED,
        "setup failed with exit code {code}|{error}",
        "{advice}",
        message=r"setup failed with exit code (?P<code>\d+)",
        detail=_setup_error,
    ),
    Rule(
        "waits-for-files",
        Stage.START,
        SignalSource.NODE,
        "waits for files",
        "{message}",
        reason=WAITING_FOR_FILES,
    ),
    _waits(
        "no-address-of-nodes",
        "no address",
        "check the DNS of the cluster, and dnsPolicy in config.kubernetes.pod_config",
    ),
    _waits(
        "no-connection-to-nodes",
        "no connection",
        "check the NetworkPolicies of the namespace: all nodes connect to port 61137 of node-0",
    ),
    _waits(
        "node-0-runs-already",
        "connection refused",
        "the program of node-0 may run already: nodes that start again meet the others when those"
        " start again, too; see `kubectl sky stacks {id}`",
    ),
    Rule(
        "hung",
        Stage.RUN,
        SignalSource.ENDED,
        "killed by on_hang: {text}",
        "see what it did: `kubectl sky logs {id}{rank}`",
        message=r"^hung: (?P<text>.*)",
    ),
    Rule(
        "upload-timeout",
        Stage.START,
        SignalSource.ENDED,
        "{message}",
        "keep `kubectl sky submit` running until the files are uploaded",
        message=r"^upload of the files for .* timed out",
    ),
    Rule(
        "nodes-missing",
        Stage.START,
        SignalSource.ENDED,
        "timeout while waiting for the other nodes|: {rest}",
        "see why those did not start; KUBECTL_SKY_BARRIER_TIMEOUT sets the timeout in seconds",
        message=r"gave up waiting for the other nodes:? ?(?P<rest>.*)",
    ),
    Rule(
        "bash-missing",
        Stage.START,
        SignalSource.ENDED,
        "{message}",
        "use an image that has bash, or write the script for sh",
        message=r"^the image has no bash, and ",
    ),
    Rule(
        "ray-missing",
        Stage.RUN,
        SignalSource.ENDED,
        "Ray is not installed",
        "install it in setup, such as with: pip install 'ray[default]'",
        message=r"^Ray is not installed",
    ),
    _ended(
        "out-of-memory",
        r"OOMKilled [1-9]\d*",
        "out of memory: it used more than its memory limit",
        "request more with resources.memory or --memory",
    ),
    _ended(
        "process-out-of-memory",
        "OOMKilled 0",
        "out of memory: one of its processes was killed",
        "request more with resources.memory or --memory",
    ),
    Rule(
        "ray-head-killed",
        Stage.RUN,
        SignalSource.RAY_HEAD,
        "the Ray head was killed: {end}||; its memory limit is {limit}",
        f"increase it with {_RAY_SIZE}",
        reason=r"OOMKilled \d+|\w+ 137",
        detail=_head_memory,
    ),
    Rule(
        "ray-head-slow",
        Stage.START,
        SignalSource.RAY_HEAD,
        "the Ray head is not ready: its CPU limit of {message} is too small for Ray to start",
        f"set a limit of 1 or more with {_RAY_SIZE}",
    ),
    _gone(
        "evicted-own-volume",
        "Evicted|TerminationByKubelet",
        r'(?i)usage of emptydir volume "(?P<volume>[^"]+)" exceeds the limit "(?P<limit>[^"]+)"',
        'evicted: its volume "{volume}" has more than its limit of {limit}',
        "write less to it, or set a larger sizeLimit with config.kubernetes.pod_config;"
        " a restart ends the same way",
    ),
    _gone(
        "evicted-own-disk",
        "Evicted|TerminationByKubelet",
        r"(?:ephemeral local storage usage exceeds|exceeded its local ephemeral storage limit)"
        r"[^0-9]*(?P<limit>[0-9.]+[A-Za-z]*)?",
        "evicted: it wrote more to the local disk than its limit| {limit}",
        "request more with resources.disk_size, or write large data to a volume;"
        " a restart ends the same way",
    ),
    _gone(
        "evicted-pressure",
        "Evicted|TerminationByKubelet",
        r"had condition: \[(?P<pressure>\w+)\]",
        "evicted: its cluster node has {pressure}, and takes no such pods now",
    ),
    _gone(
        "evicted-files",
        "Evicted|TerminationByKubelet",
        r"resource: inodes",
        "evicted: the cluster node has room for no more files",
        "write fewer files to the local disk, or write them to a volume",
    ),
    _gone(
        "evicted-processes",
        "Evicted|TerminationByKubelet",
        r"resource: pids",
        "evicted: the cluster node has room for no more processes",
        "start fewer processes, such as workers of the data loader",
    ),
    _gone(
        "evicted-disk",
        "Evicted|TerminationByKubelet",
        r"ephemeral[- ](?:local )?storage|DiskPressure|emptyDir",
        "evicted: it used too much local disk|: {message}",
        "request disk with resources.disk_size, or write large data to a volume",
    ),
    _gone(
        "evicted-memory",
        "Evicted|TerminationByKubelet",
        r"memory|MemoryPressure",
        "evicted: the cluster node was low on memory|: {message}",
        "request the memory that it needs with resources.memory",
    ),
    _gone(
        "evicted",
        "Evicted|EvictionByEvictionAPI|TerminationByKubelet",
        "",
        "evicted from its cluster node|: {message}",
    ),
    _gone(
        "cluster-node-tainted",
        NODE_TAINTED,
        "",
        "its cluster node was tainted|: {message}",
    ),
    _gone(
        "cluster-node-lost",
        "NodeLost|DeletionByTaintManager|DeletionByPodGC|NodeShutdown|Terminated",
        "",
        "its cluster node was lost|: {message}",
    ),
    _node(
        "job-not-found",
        JOB_NOT_FOUND,
        "its Job was deleted or lost its labels",
        "run `kubectl sky stop {id}` and submit the task again",
    ),
    Rule(
        "pod-deleted",
        Stage.RUN,
        SignalSource.NODE,
        "its pod was deleted",
        "{advice}",
        POD_DELETED,
        detail=_restart,
    ),
    _node(
        "pod-not-found",
        POD_NOT_FOUND,
        "its pod is gone||; the cause is not known",
        "submit the task again and follow it: `kubectl sky submit` and `wait` keep the cause",
    ),
    _node(
        "pods-stopped",
        STOPPED,
        "its pods are gone||; which node failed first is not known",
        "submit the task again and follow it: `kubectl sky submit` and `wait` keep the cause",
        mere=True,
    ),
    _node(
        "cluster-node-silent",
        NODE_LOST,
        "its {message}||; the node may still run",
        "wait: Kubernetes deletes the pod if it stays away; `kubectl get nodes` shows an admin why",
    ),
    _node(
        "meets-nobody",
        MEETS_NOBODY,
        "it {message}||: a node that starts again has to meet all others",
        "`kubectl sky stop {id}`, and submit the task again; nodes that need not meet belong into"
        " an array: `submit --array`",
    ),
    Rule(
        BEING_DELETED,
        Stage.RUN,
        SignalSource.NODE,
        "{message}",
        "{about}",
        DELETING,
    ),
    Rule(
        "pod-on-lost-node",
        Stage.RUN,
        SignalSource.NODE,
        "its pod is being deleted, but {message}",
        "{advice}",
        TERMINATING,
        r"^cluster node \S+ does not respond",
        detail=_restart,
        mere=True,
    ),
    _node(
        "pod-terminating",
        TERMINATING,
        "its pod is being deleted",
        "wait until it is deleted: the node then fails or is restarted",
    ),
    _node(
        "pod-kept",
        POD_KEPT,
        "container {message} keeps the pod and its resources although main has ended",
        "make it a native sidecar: an init container with restartPolicy: Always;"
        " `kubectl sky stop {id}` deletes the pods of the task",
        mere=True,
    ),
    Rule(
        "rank-silent",
        Stage.RUN,
        SignalSource.RANKS,
        "{message}||{about}",
        "see where they are: `kubectl sky stacks {id}`",
    ),
    _node(
        "held",
        HELD,
        "its failed container is held until {message}",
        "look into it with `{about}`; `kubectl sky stop {id}` ends it",
        mere=True,
    ),
    _deadline("deadline", SignalSource.WORKLOAD, "Job", ", which a template or policy sets"),
    _deadline("pod-deadline", SignalSource.POD, "pod", " in config.kubernetes.pod_config"),
    Rule(
        "probe-failed",
        Stage.RUN,
        SignalSource.POD_EVENT,
        "its {which} probe failed|: {rest}",
        "{advice}",
        reason="Unhealthy",
        detail=_probe,
        message=r"(?P<which>Liveness|Startup) probe failed(?!: waiting for ):? ?(?P<rest>.*)",
    ),
    Rule(
        "not-ready-in-time",
        Stage.RUN,
        SignalSource.PROBE,
        "not ready within {limit}|{failure}|{lines}",
        "{advice}",
        reason="startup",
        detail=_probe,
        mere=True,
    ),
    Rule(
        "not-alive",
        Stage.RUN,
        SignalSource.PROBE,
        "restarted: its probe failed for longer than {limit}|{failure}|{lines}",
        "{advice}",
        detail=_probe,
        mere=True,
    ),
    Rule(
        "setup-command-missing",
        Stage.SETUP,
        SignalSource.LOG,
        "setup went on without a command: {command}: not found",
        "{advice}",
        message=r"/setup\.sh: (?:line )?\d+: (?P<command>[^\n]+?): (?:command )?not found",
        detail=_missing_command,
    ),
    _logged(
        "gpu-out-of-memory",
        r"(?:CUDA out of memory|torch\.cuda\.OutOfMemoryError|CUBLAS_STATUS_ALLOC_FAILED"
        r"|RESOURCE_EXHAUSTED: Out of memory)",
        "out of GPU memory",
        "use a smaller batch, or a GPU with more memory",
    ),
    _logged(
        "gpu-architecture",
        r"no kernel image is available for execution",
        "the program was not built for this GPU{image}",
        "install a version of the library for it in setup, or use another image or GPU",
    ),
    _logged_last(
        "gpu-driver-old",
        r"NVIDIA driver on your system is too old|CUDA driver version is insufficient"
        r"|PTX was compiled with an unsupported toolchain|forward compatibility was attempted",
        "the GPU driver of the cluster node is too old for the program{image}",
        "use an image for an older CUDA, or cluster nodes with a newer driver",
    ),
    _logged(
        "gpu-missing",
        r"(?:Found no NVIDIA driver|no CUDA-capable device is detected|CUDA driver version is"
        r" insufficient|Failed to initialize NVML"
        r"|No CUDA GPUs are available)",
        "the program found no working GPU",
        "request one with resources.accelerators; if it does, submit with --exclude-node",
    ),
    _logged(
        "shared-memory",
        r"(?:out of shared memory|Bus error[^\n]*shared memory|unable to (?:write to|open)"
        r"[^\n]*/dev/shm|No space left on device[^\n]*/dev/shm)",
        "out of shared memory in /dev/shm",
        "request more with resources.memory, or use fewer workers of the data loader",
    ),
    _logged(
        "gpu-failed",
        r"(?P<what>\bXid\b.{0,60}|uncorrectable ECC error|fallen off the bus|GPU is lost)",
        "a GPU or its driver failed|: {what}",
        "see `dmesg | grep Xid` on its cluster node; drain the cluster node, or reset the GPU",
    ),
    _logged_last(
        "program-architecture",
        r"exec format error|cannot execute binary file",
        "a program is for another CPU architecture than the cluster node's||{image}",
        "use an image, and programs, for that architecture",
    ),
    _logged(
        "module-part-missing",
        r"ModuleNotFoundError: No module named '(?P<module>\w+\.[\w.]+)",
        'Python module "{module}" not found{image}',
        "if it is yours, check workdir and the ignore files; or install another version in setup",
    ),
    _logged(
        "module-missing",
        r"(?:ModuleNotFoundError|ImportError): No module named '?(?P<module>[\w.]+)",
        'Python module "{module}" not found||{image}',
        "install it in setup, or use an image that has it",
    ),
    _logged(
        "address-in-use",
        r"[Aa]ddress already in use",
        "a port that it listens on is in use",
        "use another port; only pods with hostNetwork share the ports of a cluster node",
    ),
    _logged(
        "disk-full",
        r"No space left on device|Disk quota exceeded",
        "no space left on device",
        "request more with resources.disk_size, or use a larger volume",
    ),
    _logged(
        "library-missing",
        r"(?P<library>lib[\w+.-]+\.so[\d.]*): cannot open shared object file",
        'library "{library}" not found||{image}',
        "install it in setup, or use an image that has it",
    ),
    _logged(
        "package-missing",
        r"No matching distribution found for (?P<package>\S+)",
        'Python package "{package}" not found, or not for this version of Python||{image}',
        "check its name and version; or use an image with another Python",
    ),
    _logged(
        "model-gated",
        r"(?:GatedRepoError|Cannot access gated repo|awaiting a review from the repo authors)",
        "the model is gated: its terms are not accepted, or there is no token",
        "accept the terms on its page, and give a token: `--secret HF_TOKEN`",
    ),
    _logged(
        "credentials-missing",
        r"(?:NoCredentialsError|Unable to locate credentials|api_key not configured"
        r"|could not automatically determine credentials|DefaultCredentialsError)",
        "the program has no credentials",
        "give them with `secrets` or --secret, or with a service account of the cloud",
    ),
    _logged_last(
        "credentials-denied",
        r"(?P<why>(?:An error occurred \(AccessDenied\)|does not have storage\.\w+"
        r"|AuthorizationPermissionMismatch|Authentication failed for '"
        r"|could not read Username for '|Permission denied \(publickey)[^\n]{,200})",
        "the program's credentials are refused, or it has none|: {why}",
        "give others with `secrets` or --secret, or with a service account of the cloud",
    ),
    _logged_last(
        "model-missing",
        r"(?:RepositoryNotFoundError|Repository Not Found for url)",
        "the model or dataset is not found, or it is private",
        "check its name; for a private one, give a token: `--secret HF_TOKEN`",
    ),
    _logged(
        "name-unknown",
        r"(?:Temporary failure in name resolution|NameResolutionError|Could not resolve host)",
        "the name of a host cannot be resolved",
        "check the name; a NetworkPolicy may forbid the way out, or DNS",
    ),
    _logged(
        "read-only",
        r"Read-only file system:? ?'?(?P<path>[^'\n]*)",
        '"{path}" is on a read-only file system',
        "write to another folder, or mount the volume for writing",
    ),
    _logged(
        "not-permitted",
        r"PermissionError: \[Errno 13\] Permission denied: '(?P<path>[^'\n]+)'",
        'no permission for "{path}"',
        "check the owner of the files: `kubectl sky exec {id} -- ls -ln`; see the setting"
        " volume_group",
    ),
    _logged(
        "peer-unreachable",
        r"client socket has timed out[^\n]*trying to connect to (?P<peer>\S+ \d+\)|\S+)",
        "it cannot connect to {peer}",
        "check that rank 0 listens there, and the NetworkPolicies of the namespace",
    ),
    _logged(
        "peers-lost",
        r"(?:NCCL (?:timeout|error)|ncclSystemError|Connection reset by peer|Socket Timeout"
        r"|collective operation timeout)",
        "it lost the connection to other nodes",
        "see the first node that failed: `kubectl sky status {id}`",
    ),
    _logged_last(
        "network-unreachable",
        r"(?P<why>Network is unreachable|couldn't connect to '[^'\n]+')",
        "the program cannot reach the network|: {why}",
        "a NetworkPolicy may forbid the way out; or set HTTPS_PROXY in envs",
    ),
    _logged_last(
        "certificate-untrusted",
        r"(?:CERTIFICATE_VERIFY_FAILED|SSL certificate problem)",
        "the program does not trust the certificate of a server",
        "install its CA in setup, or use an image that has it",
    ),
    _logged_last(
        "program-out-of-memory",
        r"(?:\bMemoryError\b|Unable to allocate \S+ \w+ for an array|std::bad_alloc"
        r"|DefaultCPUAllocator: (?:not enough|can't allocate) memory)",
        "the program got no more memory",
        "request more with resources.memory or --memory",
    ),
    _logged_last(
        "files-open",
        r"Too many open files",
        "the program has too many open files",
        "use fewer workers, or raise the limit in run: ulimit -n 65536",
    ),
    _logged_last(
        "file-missing",
        r"(?:FileNotFoundError: \[Errno 2\] No such file or directory: '|can't open file ')"
        r"(?P<path>[^'\n]+)'",
        'file "{path}" not found',
        "check workdir, the ignore files, file_mounts and volumes: `kubectl sky status {id}`",
    ),
    Rule(
        "command-missing",
        Stage.RUN,
        SignalSource.ENDED,
        "command not found (exit code 127)|{error}|{lines}",
        "{advice}",
        reason=r"\w+ 127",
        detail=_missing_command,
    ),
    _ended(
        "command-denied",
        r"\w+ 126",
        "command not executable (exit code 126)||{lines}",
        "check its file mode and its CPU architecture",
    ),
    _ended(
        "service-ended",
        r"\w+ 0",
        "its run ends with exit code 0, so it is restarted again and again||{lines}",
        "keep the server of run in the foreground: a service runs until it is deleted",
    ),
    _ended(
        "container-lost",
        r"ContainerStatusUnknown \d+",
        "its cluster node lost the container||; how the program ended is not known",
        "submit the task again; resources.job_recovery restarts such nodes",
    ),
    _ended(
        "crashed",
        r"\w+ (?:139|134|136)",
        "crashed: {end}||{lines}",
        SEE_LOGS,
    ),
    _ended(
        "killed",
        r"\w+ (?:137|143)",
        "killed: {end}||{lines}",
        "see `kubectl get events -n {namespace}`",
        mere=True,
    ),
    Rule(
        "failed",
        Stage.RUN,
        SignalSource.ENDED,
        "{end}|{error}|{lines}",
        SEE_LOGS,
        reason=r"\w+ \d+",
        detail=_error,
        mere=True,
    ),
    Rule(
        "waits-for-nodes",
        Stage.START,
        SignalSource.BARRIER,
        "running nodes wait for {message}",
        "see why they do not start",
        mere=True,
    ),
)
