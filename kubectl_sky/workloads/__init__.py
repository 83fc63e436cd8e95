"""Backends: how a plan runs in the cluster, one file per backend."""
