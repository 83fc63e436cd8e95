"""Run as `kubectl sky`, `kubectl-sky` or `python -m kubectl_sky`."""

import sys


def run() -> None:
    """Run the command line and exit."""
    try:
        from kubectl_sky.cli import main  # noqa: PLC0415 -- Ctrl-C meanwhile is no traceback
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
    main.run()


if __name__ == "__main__":
    # A frozen build is also its own Python interpreter: it starts the practice cluster as
    # `PROGRAM -m kubectl_sky_practice`.
    if getattr(sys, "frozen", False) and sys.argv[1:2] == ["-m"]:
        import runpy  # takes 4 ms and is needed only here

        sys.argv = sys.argv[2:]
        runpy.run_module(sys.argv[0], run_name="__main__")
    else:
        run()
