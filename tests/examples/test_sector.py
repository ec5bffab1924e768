"""The sector example runs as its header says, here in its smallest form."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.slow
def test_the_sector_study(tmp_path):
    command = [sys.executable, EXAMPLES / "sector.py", "--dims", "2", "--samples", "300", "--out", tmp_path]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert printed[2].split()[1] == "2"
    assert {path.name for path in tmp_path.iterdir()} == {"plane.png", "dimensions.png"}
    accuracy = [float(cell) for cell in printed[2].split("|")[4:6]]
    assert min(accuracy) > 80
