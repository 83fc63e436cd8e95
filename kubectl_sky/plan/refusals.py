"""Collect everything in a task that no cluster can change and submit refuses."""

from collections.abc import Iterator
from dataclasses import replace

from kubectl_sky.plan import accelerators, buckets, tpu
from kubectl_sky.settings import Settings
from kubectl_sky.spec.accelerator import Accelerator
from kubectl_sky.spec.document import FieldError
from kubectl_sky.spec.task import Task


def find_refusals(task: Task, settings: Settings) -> Iterator[FieldError]:
    """Yield an error for each bucket without a needed setting, and each unknown accelerator."""
    for bucket in task.buckets:
        try:
            buckets.bucket_volumes(replace(task, buckets=(bucket,)), settings, "", ())
        except FieldError as error:
            yield error
    for accelerator in dict.fromkeys(item.accelerator for item in task.candidates):
        try:
            _check_accelerator(accelerator)
        except FieldError as error:
            yield error


def _check_accelerator(accelerator: Accelerator | None) -> None:
    if accelerator and accelerator.name and tpu.is_tpu(accelerator.name):
        tpu.request(accelerator.name, accelerator.count)
    elif accelerator and accelerator.name:
        accelerators.models(accelerator.name)
