"""Run as `kubectl sky`, `kubectl-sky` or `python -m kubectl_sky`."""

import sys

from kubectl_sky.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
