"""What is in the cluster: find, list, watch, logs, stop, doctor, exec."""
