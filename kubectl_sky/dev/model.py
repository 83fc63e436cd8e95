"""Development pods: they run setup, and stay until they are stopped, idle or over."""

from collections.abc import Iterator, Mapping

from kubectl_sky.spec.lifecycle import DevPod
from kubectl_sky.spec.task import Task
from kubectl_sky.words import assets

# Pulling the image and setup come before the lifetime, which stay.sh measures. If they take longer
# than this, or stay.sh is killed, the kubelet ends the pod.
_START_SECONDS = 3600
_UNITS = ((3600, "h"), (60, "m"), (1, "s"))


def stay(dev: DevPod) -> str:
    """Return the script that keeps the pod up."""
    limits = f"lifetime={dev.lifetime or 0} idle={dev.idle or 0}\n"
    return limits + assets.read("runtime", "stay.sh")


def scripts(task: Task) -> dict[str, str]:
    """Return the script that serves ssh connections through exec."""
    return {"sshd.sh": assets.read("runtime", "sshd.sh")} if task.dev else {}


def pod_fields(task: Task) -> Mapping[str, object]:
    """Return the task's `pod_config`, with a deadline for a pod whose lifetime is limited."""
    pod = task.kubernetes.pod
    if task.dev is None or task.dev.lifetime is None:
        return pod
    deadline = {"activeDeadlineSeconds": task.dev.lifetime + _START_SECONDS}
    return {**pod, "spec": deadline | (pod.get("spec") or {})}


def notes(dev: DevPod) -> Iterator[str]:
    """Yield when the pod ends, and what is ignored in the task file."""
    for field in dev.ignored:
        yield f"{field}: ignored by dev"
    ends = []
    if dev.lifetime:
        ends.append(f"{_span(dev.lifetime)} after setup")
    if dev.idle:
        ends.append(f"after {_span(dev.idle)} without exec sessions and CPU use")
    if ends:
        yield f"the development pod ends {', or '.join(ends)}"
    else:
        yield "the development pod stays up until it is stopped; --for and --idle limit it"


def _span(seconds: int) -> str:
    """Format a duration as the flags write it: 1h30m."""
    text = ""
    for size, unit in _UNITS:
        count, seconds = divmod(seconds, size)
        text += f"{count}{unit}" if count else ""
    return text
