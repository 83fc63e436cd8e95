"""Plot a simulation as PNG; the only importer of matplotlib."""

from collections.abc import Mapping
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from kubectl_sky.errors import UserError
from kubectl_sky.fairshare.simulate import Outcome


def write(outcomes: Mapping[str, Outcome], path: Path) -> None:
    """Write the shares over time, beside each other, with a title for each. Raises UserError."""
    figure = Figure(figsize=(5.5 * len(outcomes), 3.5), layout="constrained")
    for number, (title, outcome) in enumerate(outcomes.items(), start=1):
        axes = figure.add_subplot(1, len(outcomes), number)
        hours = [
            outcome.end * (index + 0.5) / len(outcome.over_time) / 3600
            for index in range(len(outcome.over_time))
        ]
        shares = {
            user: [period[user] for period in outcome.over_time] for user in outcome.contended
        }
        axes.stackplot(hours, *shares.values(), labels=list(shares))
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.set(title=title, xlabel="hours", ylabel="share of the slots", ylim=(0, 1))
        if number == len(outcomes):
            axes.legend(loc="lower right")
    try:
        figure.savefig(path, format="png", dpi=120)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error
