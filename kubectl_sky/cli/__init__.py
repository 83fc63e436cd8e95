"""Command line: parse the arguments, call one action, and print the result.

Only this package imports click.
"""
