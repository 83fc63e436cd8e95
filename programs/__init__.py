"""Programs that developers run by hand or by make."""
