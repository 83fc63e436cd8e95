"""From a file to objects in the cluster: load, check, gather, decide, apply, upload."""
