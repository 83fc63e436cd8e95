"""Explain why a node failed after it had started."""

from collections.abc import Mapping

from kubectl_sky.observe.findings import Rule, Stage
from kubectl_sky.observe.nodes import JOB_NOT_FOUND, POD_DELETED
from kubectl_sky.observe.symptoms import Snapshot, Source, Symptom

_LINES = 3  # log lines at the end of a finding


def _last_lines(seen: Snapshot, symptom: Symptom, groups: Mapping[str, str]) -> Mapping[str, str]:
    """Return the last log lines of the node, or else its termination message."""
    rank = symptom.ranks[0] if symptom.ranks else 0
    lines = list(seen.logs.get(rank, ())) or symptom.message.splitlines()
    text = " / ".join(line.strip() for line in lines[-_LINES:] if line.strip())
    return {"lines": f"; it ended with: {text[-300:]}" if text else ""}


def _ended(name: str, reason: str, what: str, then: str, mere: bool = False) -> Rule:
    detail = _last_lines
    return Rule(name, Stage.RUN, Source.ENDED, what, then, reason, detail=detail, mere=mere)


def _gone(name: str, reason: str, message: str, what: str, then: str) -> Rule:
    return Rule(name, Stage.RUN, Source.POD, what, then, reason=reason, message=message)


def _logged(name: str, message: str, what: str, then: str) -> Rule:
    return Rule(name, Stage.RUN, Source.LOG, what, then, message=message)


RUN = (
    Rule(
        "setup-failed",
        Stage.SETUP,
        Source.ENDED,
        "setup failed with exit code {code}{lines}",
        "`kubectl sky logs {id}` shows what it said",
        message=r"setup failed with exit code (?P<code>\d+)",
        detail=_last_lines,
    ),
    Rule(
        "nodes-missing",
        Stage.START,
        Source.ENDED,
        "it waited in vain for the other nodes: {rest}",
        "see why those did not start; KUBECTL_SKY_BARRIER_TIMEOUT sets how many seconds it waits",
        message=r"gave up waiting for the other nodes:? ?(?P<rest>.*)",
    ),
    _ended(
        "out-of-memory",
        r"OOMKilled [1-9]\d*",
        "it needed more memory than it has",
        "ask for more: resources.memory, or --memory",
    ),
    _ended(
        "process-out-of-memory",
        "OOMKilled 0",
        "one of its processes was killed because it needed more memory than it has",
        "ask for more: resources.memory, or --memory",
    ),
    _gone(
        "evicted-disk",
        "Evicted|TerminationByKubelet",
        r"ephemeral[- ](?:local )?storage|DiskPressure|emptyDir",
        "the machine ended it, as it wrote too much to its disk: {message}",
        "ask for disk: resources.disk_size; write large data to a volume",
    ),
    _gone(
        "evicted-memory",
        "Evicted|TerminationByKubelet",
        r"memory|MemoryPressure",
        "the machine ended it, as memory was short there: {message}",
        "ask for the memory that it needs: resources.memory",
    ),
    _gone(
        "evicted",
        "Evicted|EvictionByEvictionAPI|TerminationByKubelet",
        "",
        "it was evicted from its machine: {message}",
        "submit it again; resources.job_recovery starts such nodes again",
    ),
    _gone(
        "machine-lost",
        "NodeLost|DeletionByTaintManager|DeletionByPodGC|NodeShutdown|Terminated",
        "",
        "its machine was lost: {message}",
        "submit it again; resources.job_recovery starts such nodes again",
    ),
    Rule(
        "job-not-found",
        Stage.RUN,
        Source.NODE,
        "its Job was deleted or lost its labels",
        "run `kubectl sky stop {id}` and submit the task again",
        reason=JOB_NOT_FOUND,
    ),
    Rule(
        "pod-deleted",
        Stage.RUN,
        Source.NODE,
        "its pod was deleted",
        "submit the task again; resources.job_recovery restarts such nodes",
        reason=POD_DELETED,
    ),
    Rule(
        "deadline",
        Stage.RUN,
        Source.WORKLOAD,
        "it ran longer than its Job may",
        "raise activeDeadlineSeconds, which a template or policy has set",
        reason="DeadlineExceeded",
    ),
    _gone(
        "pod-deadline",
        "DeadlineExceeded",
        "",
        "it ran longer than its pod may",
        "raise activeDeadlineSeconds in config.kubernetes.pod_config",
    ),
    Rule(
        "probe-failed",
        Stage.RUN,
        Source.POD_EVENT,
        "its {which} probe failed: {rest}",
        "correct the probe in config.kubernetes.pod_config",
        reason="Unhealthy",
        message=r"(?P<which>Liveness|Startup) probe failed:? ?(?P<rest>.*)",
    ),
    _logged(
        "gpu-out-of-memory",
        r"(?:CUDA out of memory|torch\.cuda\.OutOfMemoryError|CUBLAS_STATUS_ALLOC_FAILED)",
        "the GPU's memory was too small",
        "a smaller batch, or a GPU with more memory",
    ),
    _logged(
        "module-missing",
        r"(?:ModuleNotFoundError|ImportError): No module named '?(?P<module>[\w.]+)",
        "the Python module {module} is not there",
        "install it in setup, or use an image that has it",
    ),
    _logged(
        "address-in-use",
        r"[Aa]ddress already in use",
        "a port that it listens on is taken",
        "use another port; two ranks on one machine share nothing but hostNetwork",
    ),
    _logged(
        "disk-full",
        r"No space left on device",
        "a disk was full",
        "ask for more: resources.disk_size, or a larger volume",
    ),
    _logged(
        "peers-lost",
        r"(?:NCCL (?:timeout|error)|ncclSystemError|Connection reset by peer|Socket Timeout)",
        "it lost the other nodes",
        "the first node that failed has the cause: `kubectl sky status {id}`",
    ),
    _ended(
        "command-missing",
        r"\w+ 127",
        "a command was not found (exit code 127){lines}",
        "install it in setup, or use an image that has it",
    ),
    _ended(
        "command-denied",
        r"\w+ 126",
        "a command could not be run (exit code 126){lines}",
        "it has to be executable, and made for the machine",
    ),
    _ended(
        "crashed",
        r"\w+ (?:139|134|136)",
        "it crashed ({reason}: a signal){lines}",
        "`kubectl sky logs {id}` shows what came before",
    ),
    _ended(
        "killed",
        r"\w+ (?:137|143)",
        "it was killed ({reason}: a signal){lines}",
        "somebody or the machine ended it: `kubectl get events -n {namespace}`",
        mere=True,
    ),
    _ended(
        "failed",
        r"\w+ \d+",
        "it failed ({reason}){lines}",
        "`kubectl sky logs {id}` shows all of it",
        mere=True,
    ),
    Rule(
        "waits-for-nodes",
        Stage.START,
        Source.BARRIER,
        "nodes that have started wait for {message}",
        "see why those do not start",
        mere=True,
    ),
)
