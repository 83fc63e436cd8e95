"""What was seen, told as values: status, logs, differences."""
