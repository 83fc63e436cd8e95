"""All scenes that are played on both clusters."""

from tests.practice import changing, reading, running

SCENES = (*reading.SCENES, *changing.SCENES, *running.SCENES)
