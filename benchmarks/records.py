"""What a run of many classes costs besides its votes: bytes of a record, processor time to verify, size of the report.

    python benchmarks/records.py --classes 1000 --inputs 10000 --out benchmarks/results/records-cpu.json

The votes are simulated: the true class of an input has a random share of them, and the rest goes to all other classes,
to a few dozen of them far more often. All that follows is real: the rule's procedure, the journal, `verify` and
`report`, each for constant noise and for a cascade of three levels, with n0 = 100, n = 10,000 and fixed sampling.
"""

import argparse
import gzip
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

import sigmax as sx
from sigmax.jobs.certify import plan_run
from sigmax.records.journal import Journal
from sigmax.records.lines import Record
from sigmax.records.verify import verify
from sigmax.report.folder import write
from sigmax.rules.certificate import Certificate
from sigmax.rules.procedure import Procedure, Rule, VoteRequest
from sigmax.rules.sampling import Sampling

ASKED: dict[str, Any] = {"n0": 100, "n": 10_000, "alpha": 1e-3}
CERTAIN, STEEP = (2.0, 0.6), 1.5  # Beta of the true class's share; how fast the shares of rivals fall off


def systems(classes: int) -> dict[str, sx.Smoothed | sx.Cascade]:
    """Networks that nobody asks: only their rules matter."""
    network = nn.Sequential(nn.Flatten(), nn.Linear(3, classes))
    levels = [sx.Smoothed(sx.models.selective(network, confidence=0.5), sigma=s, classes=classes) for s in (1.0, 0.5)]
    last = sx.Smoothed(network, sigma=0.25, classes=classes)
    return {"constant": sx.Smoothed(network, sigma=0.5, classes=classes), "cascade": sx.Cascade(levels, last)}


def certified(rule: Rule, label: int, rng: np.random.Generator) -> Certificate:
    """The certificate of an input whose votes are simulated; outcomes beyond the classes are votes to defer."""
    procedure: Procedure[Certificate] = rule.certifying(**ASKED)
    shares: dict[str, Any] = {}
    try:
        asked = next(procedure)
        while True:
            assert isinstance(asked, VoteRequest)
            share = shares.setdefault(asked.part, _shares(asked.classes, label, rng))
            asked = procedure.send(tuple(rng.multinomial(asked.n, share).tolist()))
    except StopIteration as end:
        found: Certificate = end.value
        return found


def _shares(outcomes: int, label: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    own = rng.beta(*CERTAIN)
    rivals = rng.permutation(1 / np.arange(1, outcomes + 1) ** STEEP)
    rivals[label] = 0
    shares = (1 - own) * rivals / rivals.sum()
    shares[label] = own
    return np.asarray(shares)


def measure(scheme: sx.Smoothed | sx.Cascade, classes: int, inputs: int, folder: Path) -> dict[str, float]:
    """What the run of a scheme costs."""
    labels = np.arange(inputs, dtype=np.int64) % classes
    names = tuple(f"class {label}" for label in range(classes))
    data = sx.data.Dataset("synthetic", "test", np.zeros((inputs, 3, 1, 1), np.float32), labels, names)
    plan = plan_run(scheme, data, seed=0, start=0, skip=1, maximum=None, sampling=Sampling("fixed"), **ASKED)
    rng, path = np.random.default_rng(0), folder / "run.jsonl"
    found = [certified(scheme.rule, int(label), rng) for label in labels]
    begun = time.process_time()
    with Journal(path, plan) as journal:
        for index, certificate in enumerate(found):
            journal.write(Record(index, int(labels[index]), certificate, 0.01))
        journal.finish()
    written = time.process_time()
    assert verify(path).holds
    verified = time.process_time()
    page = next(file for file in write([path], folder / "report") if file.name == "report.html")
    return {
        "bytes_per_record": path.stat().st_size / inputs,
        "gzipped_bytes_per_record": len(gzip.compress(path.read_bytes())) / inputs,
        "write_s": written - begun,
        "verify_s": verified - written,
        "report_s": time.process_time() - verified,
        "report_mb": page.stat().st_size / 1e6,
        "certified": float(np.mean([certificate.radius > 0 for certificate in found])),
    }


def main(arguments: list[str] | None = None) -> None:
    """Print the table of the docs."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--classes", type=int, default=1_000)
    cli.add_argument("--inputs", type=int, default=10_000)
    cli.add_argument("--out", type=Path, help="also write the figures as JSON")
    asked = cli.parse_args(arguments)
    rows: dict[str, dict[str, float]] = {}
    print("| run | bytes a record | gzipped | write, s | verify, s | report, s | report.html, MB |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, scheme in systems(asked.classes).items():
        with tempfile.TemporaryDirectory() as folder:
            row = rows[name] = measure(scheme, asked.classes, asked.inputs, Path(folder))
        sizes = f"{row['bytes_per_record']:,.0f} | {row['gzipped_bytes_per_record']:,.0f}"
        seconds = f"{row['write_s']:.1f} | {row['verify_s']:.1f} | {row['report_s']:.1f}"
        print(f"| {name} | {sizes} | {seconds} | {row['report_mb']:.1f} |", flush=True)
    if asked.out:
        figures = {"classes": asked.classes, "inputs": asked.inputs, **ASKED, "runs": rows}
        asked.out.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
