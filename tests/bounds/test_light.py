"""Checking a proof must not need a deep-learning stack."""

import subprocess
import sys


def test_bounds_and_radius_load_neither_torch_nor_pandas():
    script = "import sigmax.bounds, sigmax.radius, sys; assert not {'torch', 'pandas'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)
