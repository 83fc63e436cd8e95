"""Start threads and pools: no other module does, the practice cluster apart."""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Thread
from typing import TypeVar

from kubectl_sky.cluster.backoff import Outage

_WORKERS = 16  # requests at a time

T = TypeVar("T")
R = TypeVar("R")


def map_parallel(work: Callable[[T], R], items: Iterable[T], workers: int = _WORKERS) -> list[R]:
    """Return the results of all items, in order.

    After an error or Ctrl-C no further item begins; it is raised when those that run have ended.
    """
    items = list(items)
    if len(items) <= 1:
        return [work(item) for item in items]
    with pool(min(workers, len(items))) as threads:
        return list(threads.map(work, items))


class _Pool(ThreadPoolExecutor):
    """A pool in which no further item begins after an error, and none waits after Ctrl-C."""

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        try:
            self.shutdown(wait=kind is None, cancel_futures=kind is not None)
            if kind is KeyboardInterrupt:
                Outage.interrupt()
            self.shutdown()
        except KeyboardInterrupt:
            Outage.interrupt()
            raise


def pool(workers: int = _WORKERS, name: str = "") -> ThreadPoolExecutor:
    """Return a pool of threads, for work whose results are needed one by one."""
    return _Pool(workers, name)


def run_daemon(work: Callable[..., object], *arguments: object, name: str = "") -> Thread:
    """Run work in a thread that never delays the exit. Work handles its errors."""
    thread = Thread(target=work, args=arguments, name=name or None, daemon=True)
    thread.start()
    return thread


def run_future(work: Callable[..., R], *arguments: object, name: str = "") -> Future[R]:
    """Run work in a thread that never delays the exit; the Future has its result or its error."""
    future = Future[R]()
    future.set_running_or_notify_cancel()  # cancelling it would discard the result

    def run() -> None:
        try:
            future.set_result(work(*arguments))
        except BaseException as error:  # noqa: BLE001 -- whoever asks for the result raises it
            future.set_exception(error)

    run_daemon(run, name=name)
    return future
