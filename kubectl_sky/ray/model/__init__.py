"""Graphs, and the RayServices and statuses that follow from them. Pure."""
