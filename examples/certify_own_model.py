"""Certify a model of your own. Some seconds on a CPU: python examples/certify_own_model.py"""

import torch

import sigmax as sx

torch.manual_seed(0)
train, test = sx.data.load("digits", "train"), sx.data.load("digits", "test")
images, labels = torch.tensor(train.pixels(range(len(train)))), torch.tensor(train.labels)

sigma = 0.25
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
optimiser = torch.optim.Adam(model.parameters(), lr=0.003)
for _ in range(150):  # any training will do, if it sees the noise that certification will add
    noisy = images + sigma * torch.randn_like(images)
    optimiser.zero_grad()
    torch.nn.functional.cross_entropy(model(noisy), labels).backward()
    optimiser.step()

f = sx.Smoothed(model.eval(), sigma=sigma, classes=10)
run = sx.certify_run(f, test, "work/own.jsonl", n=1_000, alpha=0.001, maximum=60)
print(sx.report.certified_interval(run, [0.0, 0.25, 0.5]).round(3).to_string(index=False))
print(sx.report.outcome_shares(run, radius=0.25).round(3).to_string())
