"""Build the plan of a task from task, facts and settings."""
