"""The sector study runs as its header says, here in its smallest form."""

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_the_sector_study(tmp_path):
    command = [sys.executable, EXAMPLES / "sector.py", "--dims", "2", "--draws", "300", "--out", tmp_path]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert told[2].split()[1] == "2"
    assert {path.name for path in tmp_path.iterdir()} == {"plane.png", "dimensions.png"}
    accuracy = [float(cell) for cell in told[2].split("|")[4:6]]
    assert min(accuracy) > 80
