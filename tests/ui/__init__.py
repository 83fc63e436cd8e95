"""Tests of kubectl_sky/ui."""
