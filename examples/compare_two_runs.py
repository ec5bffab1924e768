"""Which of two models is better, at every p_A rather than on average? Some seconds on a CPU.

python examples/compare_two_runs.py

The same network trained without noise and with it, both smoothed with the same noise on the same images.
"""

import torch

import sigmax as sx

SIGMA, N, ALPHA, INPUTS = 0.25, 2_000, 0.001, 100


def trained(noise: float) -> torch.nn.Module:
    """A small network that saw the training images with this much noise."""
    torch.manual_seed(0)
    train = sx.data.load("digits", "train")
    images, labels = torch.tensor(train.pixels(range(len(train)))), torch.tensor(train.labels)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.003)
    for _ in range(150):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(images + noise * torch.randn_like(images)), labels).backward()
        optimiser.step()
    return model.eval()


def main() -> None:
    """Certify both, then ask."""
    runs = []
    for name, noise in (("clean", 0.0), ("noisy", SIGMA)):
        f = sx.Smoothed(trained(noise), sigma=SIGMA, classes=10)
        test = sx.data.load("digits", "test")
        runs.append(sx.certify_run(f, test, f"work/{name}.jsonl", n=N, alpha=ALPHA, maximum=INPUTS))

    print(sx.report.compare(runs).round(3).to_string(index=False), "\n")
    for pair in sx.report.dominance(runs):
        print(pair, "\n")
    for run in runs:  # what would a tenth of the samples have certified? From the stored votes, without the model
        fewer = sx.report.recertify(run, n=N // 10, alpha=ALPHA)
        print(f"{run.path.stem}, {N // 10} samples:", fewer.accuracy([0.0, 0.25, 0.5]).round(3).to_dict())
        print(" ", sx.report.average_radius(run))
    ax = sx.report.draw_ecdf(runs, sx.report.axes(columns=1))
    print("Wrote", *sx.report.save(ax, "work/p_A"))


if __name__ == "__main__":
    main()
