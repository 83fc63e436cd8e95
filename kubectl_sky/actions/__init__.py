"""Implement the commands: connect the planning code with the cluster."""
