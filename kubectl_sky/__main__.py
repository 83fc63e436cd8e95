"""Run as `kubectl sky`, `kubectl-sky` or `python -m kubectl_sky`."""

import sys

from kubectl_sky.cli.main import main

if __name__ == "__main__":
    # Packed with a Python of its own, the program is that Python, too: the practice cluster is
    # started as `PROGRAM -m kubectl_sky.practice` then.
    if getattr(sys, "frozen", False) and sys.argv[1:2] == ["-m"]:
        import runpy  # 4 ms that no other start needs

        sys.argv = sys.argv[2:]
        runpy.run_module(sys.argv[0], run_name="__main__")
    else:
        sys.exit(main())
