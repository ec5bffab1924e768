"""Checking a proof must not need a deep-learning stack."""

import subprocess
import sys


def test_bounds_and_radius_load_neither_torch_nor_pandas():
    script = (
        "import sigmax.bounds, sigmax.radius, sys; "
        "assert 'torch' not in sys.modules and 'pandas' not in sys.modules; "
        "ours = {name for name in sys.modules if name.startswith('sigmax.')}; "
        "assert all(name.startswith(('sigmax.bounds', 'sigmax.radius', 'sigmax.errors')) for name in ours), ours"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
