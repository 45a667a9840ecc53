"""Lets these tests import what benchmarks/kernels.py is made of."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
