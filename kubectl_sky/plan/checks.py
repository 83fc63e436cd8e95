"""The probes of a container, which the kubelet runs."""

from dataclasses import dataclass

from kubectl_sky.words import names


@dataclass(frozen=True)
class Http:
    """A GET request of the kubelet."""

    path: str
    port: int
    headers: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Check:
    """A probe of the container: an HTTP request, or the script if `http` is None.

    Times are in seconds.
    """

    name: str
    http: Http | None
    period: int
    timeout: int
    threshold: int
    script: str = f"{names.SCRIPTS_FOLDER}/probe.sh"


# Shows in the pod's status whether the local files have arrived. Each run of the script waits for
# 30 seconds, because the kubelet reports a failure as an event. files.sh limits the time.
UPLOADED = Check(
    "startupProbe", None, 1, 60, 1_000_000, script=f"{names.SCRIPTS_FOLDER}/uploaded.sh"
)
