"""Whole commands beside their peers, in one run on one machine."""
