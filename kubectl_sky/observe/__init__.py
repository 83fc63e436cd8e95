"""Turn cluster objects into values: status, logs, differences."""
