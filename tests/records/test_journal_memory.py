"""What a writer keeps of a run: eight bytes an input, not its records."""

import subprocess
import sys

import pytest

WRITER = """
import sys
from pathlib import Path
from sigmax.records.journal import Journal
from sigmax.records.lines import Record
from tests.records.helpers import certificate, plan

def resident_kb():
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))

inputs = 200_000
with Journal(Path(sys.argv[1]), plan(inputs={"start": 0, "skip": 1, "count": inputs})) as journal:
    for i in range(inputs):
        journal.write(Record(i, i % 3, certificate() if i % 1000 == 0 else last.certificate, 0.25))
        last = journal.records[i] if i % 1000 == 0 else last
        if i == inputs // 10:
            print(resident_kb())
    journal.finish()
    print(resident_kb())
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the memory of a process from /proc")
def test_memory_does_not_grow_with_the_run(tmp_path):
    out = tmp_path / "run.jsonl"
    found = subprocess.check_output([sys.executable, "-c", WRITER, out], text=True)
    early, late = map(int, found.split())
    places = 8 * 180_000 / 1024  # of the inputs between the two
    assert out.stat().st_size > 80e6  # what a writer that kept its records would hold, and more
    assert late - early < places + 4 * 1024
