"""`python -m eqsat` is the command `eqsat`."""

from __future__ import annotations

import sys

from eqsat.cli import main

if __name__ == "__main__":
    sys.exit(main())
