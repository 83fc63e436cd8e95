"""Tests of the server, its controllers, users and installation."""
