"""What was decided: the plan of a task, made of task, facts and settings."""
