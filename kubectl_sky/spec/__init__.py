"""What the user wrote: load, validate, and the task as a value."""
