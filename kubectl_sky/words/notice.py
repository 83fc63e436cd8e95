"""The type of texts that leave with a notice: to a webhook, the history, an Event or a ticket."""

from typing import NewType

Notice = NewType("Notice", str)
"""Names, states, reasons, exit codes and sentences of ours; never the words of a program.

Its readers may not be allowed to read logs. A type checker rejects another text where a Notice is
expected. Make one only of values that quote no log, termination message or exception.
"""
