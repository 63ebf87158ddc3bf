"""`python -m probe_flow`: the same as the command `probe-flow`."""

from __future__ import annotations

import sys

from probe_flow.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
