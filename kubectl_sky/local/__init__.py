"""Clusters on this machine: one driver a file, and what they share."""
