"""Tests of kubectl_sky/api."""
