"""Many small certifications in one process, as `sigmax certify` does them: is memory flat, is the end as fast?

    python benchmarks/load.py --inputs 200000 --runs 200     # many run files, one after the other
    python benchmarks/load.py --inputs 200000 --runs 1       # one run file with all of them
    python benchmarks/load.py --inputs 20000 --runs 20 --trace   # which lines hold memory that was new after a tenth

Every tenth of the inputs is a row: certificates a second of processor time and by the clock, and the memory of the
process. Each run ends with its table, and the most memory that the process ever held is printed. Afterwards every run
file is verified. Flat: the process never held more than --flat above what it held after the first tenth. Steady: the
last three tenths together are at most --slower slower than the three after the first, which pays for imports and
caches. Each is printed, and the exit code is 1 if one of them fails.
"""

import argparse
import gc
import json
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import sigmax as sx
from sigmax.jobs.certify import certify_file
from sigmax.report.compare.comparison import figures_in, summary
from sigmax.rules.sampling import asked

TENTHS = 10
ASKED: dict[str, Any] = {
    "n0": 8, "n": 64, "alpha": 0.05, "sampling": asked("fixed"), "start": 0, "skip": 1, "maximum": None
}  # fmt: skip


@dataclass
class Row:
    """What was measured over one tenth of the inputs."""

    inputs: int
    process_s: float
    clock_s: float
    rss_mb: float


class Meter:
    """Takes a row after every so many records."""

    def __init__(self, every: int) -> None:
        self.every, self.seen = every, 0
        self.rows: list[Row] = []
        self._since = time.process_time(), time.perf_counter()

    def __call__(self, _: object) -> None:
        """One more record."""
        self.seen += 1
        if self.seen % self.every == 0:
            now = time.process_time(), time.perf_counter()
            process, clock = (b - a for a, b in zip(self._since, now, strict=True))
            self.rows.append(Row(self.seen, process, clock, resident_mb()))
            self._since = time.process_time(), time.perf_counter()  # without the collection of garbage


def resident_mb() -> float:
    """Memory that the process holds, garbage aside."""
    gc.collect()
    return _status_mb("VmRSS")


def _status_mb(name: str) -> float:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(name)) / 1024


def problem(inputs: int) -> tuple[sx.Smoothed, sx.data.Dataset]:
    """A linear model of two classes on images of four pixels, and as many of them."""
    torch.manual_seed(0)
    scheme = sx.Smoothed(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), sigma=0.25, classes=2)
    images = np.random.default_rng(0).random((inputs, 1, 2, 2), dtype=np.float32)
    return scheme, sx.data.Dataset("load", "test", images, np.zeros(inputs, dtype=np.int64), ("a", "b"))


def certified(inputs: int, runs: int, folder: Path, meter: Meter) -> Iterator[Path]:
    """The run files, each with its part of the inputs."""
    scheme, data = problem(inputs // runs)
    for number in range(runs):
        path = folder / f"run-{number}.jsonl"
        plan = certify_file(scheme, data, path, **ASKED, seed=number, seen=meter, watch=sx.silent)
        summary(path, figures_in(path, plan))
        yield path


def verify(path: Path, expected: int) -> None:
    """Raise unless the run file holds, and has as many records as it should have."""
    found = sx.verify(path)
    count = len(sx.read(path).records)
    if not found.holds or count != expected:
        raise AssertionError(f"{path.name}: expected {expected} records that hold, got {count}: {found.findings[:3]}")


def speeds(rows: list[Row]) -> tuple[float, float]:
    """Certificates a second of processor time over the second to fourth tenth, and over the last three."""
    early, late = rows[1:4], rows[-3:]
    return tuple(len(part) * rows[0].inputs / sum(row.process_s for row in part) for part in (early, late))  # type: ignore[return-value]  # two of them


def measure(inputs: int, runs: int, *, trace: bool = False) -> dict[str, Any]:
    """All figures of one load."""
    meter, before = Meter(inputs // TENTHS), None
    with tempfile.TemporaryDirectory() as folder:
        paths: list[Path] = []
        for path in certified(inputs, runs, Path(folder), meter):
            paths.append(path)
            if trace and before is None and meter.seen >= inputs // TENTHS:
                tracemalloc.start()
                before = tracemalloc.take_snapshot()
        if before is not None:
            for grown in tracemalloc.take_snapshot().compare_to(before, "lineno")[:5]:
                print(f"  {grown}")
            tracemalloc.stop()
        most, begun = _status_mb("VmHWM"), time.perf_counter()
        for path in paths:
            verify(path, inputs // runs)
        seconds = time.perf_counter() - begun
        size = sum(path.stat().st_size for path in paths)
    early, late = speeds(meter.rows)
    return {
        "inputs": inputs,
        "runs": runs,
        "rows": [asdict(row) for row in meter.rows],
        "early_per_s": early,
        "late_per_s": late,
        "most_mb": most,
        "grown_mb": most - meter.rows[0].rss_mb,
        "verify_s": seconds,
        "file_mb": size / 2**20,
    }


def main(arguments: list[str] | None = None) -> int:
    """Print a row for each tenth and the verdicts."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--inputs", type=int, default=200_000, help="a multiple of ten times the runs")
    cli.add_argument("--runs", type=int, default=200)
    cli.add_argument("--flat", type=float, default=10.0, help="MB that the process may grow by")
    cli.add_argument("--slower", type=float, default=0.1, help="share of speed that the end may lose")
    cli.add_argument("--trace", action="store_true", help="also trace allocations, which is slow")
    cli.add_argument("--out", type=Path)
    asked = cli.parse_args(arguments)
    if asked.inputs % (TENTHS * asked.runs):
        cli.error(f"--inputs must be a multiple of {TENTHS * asked.runs}, ten times the runs; got {asked.inputs}")
    found = measure(asked.inputs, asked.runs, trace=asked.trace)
    for row in found["rows"]:
        per_s = asked.inputs / TENTHS / row["process_s"]
        print(f"{row['inputs']:>9,} inputs  {per_s:7,.0f} a second  {row['rss_mb']:7.1f} MB")
    flat = found["grown_mb"] <= asked.flat
    steady = found["late_per_s"] >= (1 - asked.slower) * found["early_per_s"]
    change = found["late_per_s"] / found["early_per_s"] - 1
    most = f"{found['most_mb']:.1f} MB at most, {found['grown_mb']:+.1f} MB since the first tenth"
    print(f"memory: {most}: {'flat' if flat else 'NOT FLAT'}")
    print(f"speed: {change:+.1%} from early to late: {'steady' if steady else 'SLOWER'}")
    print(f"{asked.runs} run files of {found['file_mb']:.1f} MB verified in {found['verify_s']:.1f} s: all hold")
    if asked.out:
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.write_text(json.dumps(found, indent=1) + "\n")
    return 0 if flat and steady else 1


if __name__ == "__main__":
    sys.exit(main())
