"""Read a published log and compute more from it than it prints. Some seconds on a CPU.

python examples/read_published_log.py LOG --sigma 1.0 --n 100000 --alpha 0.001

Without LOG a small one is written first: sixty digits certified, exported in their format.
"""

import argparse
from pathlib import Path

import torch

import sigmax as sx
from sigmax.records.export import export_tsv
from sigmax.records.journal import write_all
from sigmax.records.logs.read import read_log


def small_log(path: Path) -> Path:
    """A log as published ones are: radii of the nearest class mean, smoothed; no counts."""
    train, test = sx.data.load("digits", "train"), sx.data.load("digits", "test")
    images, labels = torch.tensor(train.pixels(range(len(train)))).flatten(1), torch.tensor(train.labels)
    means = torch.stack([images[labels == c].mean(0) for c in range(10)])
    nearest = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    nearest[1].weight.data, nearest[1].bias.data = means, -(means**2).sum(1) / 2
    f = sx.Smoothed(nearest, sigma=0.25, classes=10)
    export_tsv(sx.certify_run(f, test, path.with_suffix(".own.jsonl"), n=1_000, maximum=60), path)
    return path


def main() -> None:
    """Import the log with its sigma, n and alpha, then ask."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("log", nargs="?", type=Path)
    parser.add_argument("--sigma", type=float, default=0.25)
    parser.add_argument("--n", type=int, default=1_000)
    parser.add_argument("--alpha", type=float, default=0.001)
    parser.add_argument("--inputs", type=int, help="rows of a complete log")
    given = parser.parse_args()
    log = given.log or small_log(Path("work/small.tsv"))

    plan, records, found = read_log(log, sigma=given.sigma, n=given.n, alpha=given.alpha, inputs=given.inputs)
    out = Path("work") / f"{log.name}.jsonl"
    out.unlink(missing_ok=True)
    write_all(out, plan, records)
    run = sx.read(out)
    for note in found.notes:
        print("note:", note)
    print(f"{found.rows:,} of {found.planned:,} rows\n")

    radii = [0.0, 0.25, 0.5, 0.75, 1.0]
    print(sx.report.certified_interval(run, radii).round(4).to_string(index=False), "\n")
    print(sx.report.average_radius(run), "\n")
    print("classes:", sx.report.class_spread(run, 0.0).round(3).to_dict("records")[0], "\n")
    print("p_A:", sx.report.ecdf(run, [0.5, 0.75, 0.9, 0.99]).round(4).to_dict("list")["share"])
    fewer = sx.report.recertify(run, n=100, alpha=0.01)
    print("with 100 samples at alpha 0.01:", fewer.accuracy(radii).round(4).to_dict())
    print("Wrote", *sx.report.save(sx.report.draw_ecdf(run, sx.report.axes()), f"work/{log.name}-p_A"))


if __name__ == "__main__":
    main()
