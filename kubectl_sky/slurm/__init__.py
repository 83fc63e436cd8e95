"""Slurm's batch scripts: from text to the document of a task, with notes on what differs."""
