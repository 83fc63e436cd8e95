"""Ask Prometheus, as the server and not as the caller, what the pods of a task have used.

Its answer is not trusted: it is bounded and parsed into types.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from threading import BoundedSemaphore
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from kubectl_sky.cluster import web
from kubectl_sky.cluster.web import Fetch
from kubectl_sky.errors import ClusterError
from kubectl_sky.gpus.model import UsageHistory, UsageSeries
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.words import age

_MEASURES = ("cpus", "memory_bytes", "gpu_percent", "gpu_memory_bytes")
_POINTS = 200
_FEWEST_POINTS = 10  # of a series
_VALUES = 20_000  # of all series of a measure: those of many nodes have fewer points
_STEP = 15  # seconds, how often Prometheus measures at most
_SHORTEST_RATE = 120  # seconds
_SECONDS = 5.0
_MAX_BYTES = 8 << 20
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_IN_CLUSTER = r"//[a-z0-9.-]+\.svc(\.cluster\.local)?(:|/|$)"
_at_once = BoundedSemaphore(8)


class _Series(Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]]


class _Data(Struct):
    result: list[_Series]


class _Answer(Struct):
    data: _Data


def read(url: str, task: TaskStatus, seconds: int, now: datetime) -> UsageHistory:
    """Return what the pods of a task used in the last seconds before now or its end.

    The caller may read these pods: nothing else is asked for. Raises ClusterError.
    """
    ranks = {pod: node.index for node in task.nodes for pod in (node.previous, node.pod) if pod}
    end = (_end(task) or now).timestamp()
    begin = max(end - seconds, (age.parse(task.created_at) or now).timestamp())
    points = min(_POINTS, max(_FEWEST_POINTS, _VALUES // max(len(ranks), 1)))
    step = max(_STEP, math.ceil((end - begin) / points))
    start = int(begin) // step * step  # the same times whenever it is asked
    history = UsageHistory(start=start, step=step, series=[])
    if not ranks or end < start:
        return history
    query = _query(task.namespace, ranks, max(step, _SHORTEST_RATE))
    form = urlencode({"query": query, "start": start, "end": int(end), "step": step})
    count = (int(end) - start) // step + 1
    return msgspec.structs.replace(history, series=_fold(_ask(url, form), ranks, history, count))


def _end(task: TaskStatus) -> datetime | None:
    ends = [age.parse(node.ended_at) for node in task.nodes] if task.state.ended else []
    return max(filter(None, ends), default=None)


def _query(namespace: str, pods: Iterable[str], window: int) -> str:
    where = json.dumps(namespace)
    which = json.dumps("|".join(map(re.escape, pods)))
    of_pods = f"namespace={where},pod=~{which}"

    def of_gpus(name: str) -> str:  # `pod` is the exporter's, unless its labels are kept
        exported = f"{name}{{exported_namespace={where},exported_pod=~{which}}}"
        renamed = f'label_replace({exported},"pod","$1","exported_pod","(.*)")'
        either = f'{renamed} or {name}{{{of_pods},exported_pod=""}}'
        return f"by (pod) (max by (pod,UUID,GPU_I_ID) ({either}))"

    containers = f'{{{of_pods},container!=""}}'
    used = f"rate(container_cpu_usage_seconds_total{containers}[{window}s])"
    memory = f"container_memory_working_set_bytes{containers}"
    parts = (  # if it is scraped twice, it counts once
        f"sum by (pod) (max by (pod,container) ({used}))",
        f"sum by (pod) (max by (pod,container) ({memory}))",
        f"avg {of_gpus('DCGM_FI_DEV_GPU_UTIL')}",
        f"1048576 * sum {of_gpus('DCGM_FI_DEV_FB_USED')}",
    )
    named = zip(parts, _MEASURES, strict=True)
    return " or ".join(f'label_replace({part},"measure","{name}","","")' for part, name in named)


def _ask(url: str, form: str) -> list[_Series]:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    is_private = re.search(_IN_CLUSTER, url.lower())
    token = _account("token") if is_private or url.startswith("https:") else ""
    headers |= {"Authorization": f"Bearer {token}"} if token else {}
    authority = _account("service-ca.crt") if is_private else ""  # which OpenShift adds

    address = f"{url.rstrip('/')}/api/v1/query_range"
    request = Fetch(address, "POST", headers, form.encode(), _SECONDS, _MAX_BYTES, authority)

    if not _at_once.acquire(timeout=_SECONDS):
        raise ClusterError("too many requests at the same time")
    try:
        answer = web.fetch(request)
        if answer.status != 200:
            raise ClusterError(f"HTTP {answer.status}")
        if len(answer.data) > _MAX_BYTES:
            raise ClusterError(f"its answer has more than {_MAX_BYTES >> 20} MiB")
        return msgspec.json.decode(answer.data, type=_Answer).data.result
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise ClusterError("its answer is not one of Prometheus") from None
    finally:
        _at_once.release()


def _account(name: str) -> str:
    """Return a file of the pod's own ServiceAccount, or an empty text."""
    with suppress(OSError, UnicodeDecodeError):
        return (_ACCOUNT / name).read_text().strip()
    return ""


def _fold(
    answer: Iterable[_Series], ranks: Mapping[str, int], history: UsageHistory, count: int
) -> list[UsageSeries]:
    rows: dict[tuple[int, str], list[float | None]] = {}
    for series in answer:
        rank = ranks.get(series.metric.get("pod", ""))
        measure = series.metric.get("measure", "")
        if rank is None or measure not in _MEASURES:
            continue
        row = rows.setdefault((rank, measure), [None] * count)
        for time, text in series.values:
            position = (time - history.start) / history.step
            if 0 <= position <= count - 1 and (value := _number(text)) is not None:
                row[round(position)] = value
    return [UsageSeries(rank, measure, row) for (rank, measure), row in sorted(rows.items())]


def _number(text: str) -> float | None:
    with suppress(ValueError):
        return value if math.isfinite(value := float(text)) else None
    return None
