"""The command line: parse, call one action, print; the only folder that imports click."""
