"""All rules of `doctor`; for each source, the first matching rule applies."""

from kubectl_sky.observe.findings import Rule
from kubectl_sky.observe.rules_admission import ADMISSION, QUEUE
from kubectl_sky.observe.rules_run import RUN
from kubectl_sky.observe.rules_scheduling import SCHEDULING
from kubectl_sky.observe.rules_start import IMAGE, START, VOLUMES

RULES: tuple[Rule, ...] = (*QUEUE, *ADMISSION, *SCHEDULING, *VOLUMES, *IMAGE, *START, *RUN)
