import math
from itertools import product

import numpy as np
import pytest
import torch
from torch import nn

from sigmax import models
from sigmax.errors import RequestError
from sigmax.models import Description
from sigmax.train.methods.base import Batch
from sigmax.train.methods.consistency import Consistency
from sigmax.train.methods.distillation import Distillation


def network(seed, classes=4, norm=False):
    torch.manual_seed(seed)
    middle = nn.BatchNorm1d(6) if norm else nn.Identity()
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 6), middle, nn.Tanh(), nn.Linear(6, classes)).double()


def softmax(logits, temperature=1.0):
    total = sum(math.exp(z / temperature) for z in logits)
    return [math.exp(z / temperature) / total for z in logits]


def literal(logits, target, taught, weight, temperature):
    """The loss of one input, term by term: logits[m][c] of its copies, taught[c] of the teacher."""
    t, total = softmax(taught, temperature), 0.0
    for row in logits:
        s = softmax(row, temperature)
        apart = sum(p * math.log(p / q) for p, q in zip(t, s, strict=True))
        total += (1 - weight) * -math.log(softmax(row)[target]) + weight * temperature**2 * apart
    return total / len(logits)


def test_the_loss_is_hintons():
    rng = np.random.default_rng(0)
    for copies, weight, temperature in product((1, 3), (0.0, 0.9, 1.0), (1.0, 4.0)):
        logits, taught = rng.normal(0, 3, (copies, 20, 4)), rng.normal(0, 3, (20, 4))
        targets = rng.integers(0, 4, 20)
        method = Distillation(0.5, network(0), weight, temperature, copies)
        found = method.losses(*map(torch.from_numpy, (logits, targets, taught)))
        expected = [
            literal(logits[:, i].tolist(), targets[i], taught[i].tolist(), weight, temperature) for i in range(20)
        ]
        assert found.tolist() == pytest.approx(expected, abs=1e-9, rel=0)


def test_without_the_teacher_it_is_consistency():
    logits = torch.randn(2, 10, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    targets, taught = torch.arange(10) % 4, torch.zeros(10, 4, dtype=torch.float64)
    method = Distillation(0.5, network(0), weight=0.0, copies=2, consistency=4.0, entropy=0.5)
    expected = Consistency(0.5, 4.0, 0.5).losses(logits, targets)
    assert torch.allclose(method.losses(logits, targets, taught), expected)


def batch_of(count=8):
    pixels = torch.rand(count, 1, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return Batch(pixels, torch.arange(count) % 4, torch.arange(count), 0, torch.Generator().manual_seed(0))


def test_the_teacher_sees_images_without_noise_and_is_not_trained():
    teacher, batch = network(3, norm=True), batch_of()
    teacher.train()  # a copy is made, and put in eval mode
    method = Distillation(0.5, teacher)
    before = [value.clone() for value in method.fixed.state_dict().values()]
    student = network(4)
    method.score(student, batch).loss.backward()
    assert torch.equal(method.taught(batch.pixels, torch.float64), teacher.eval()(batch.pixels))
    assert all(map(torch.equal, before, method.fixed.state_dict().values()))
    assert all(parameter.grad is None for parameter in (*teacher.parameters(), *method.fixed.parameters()))
    assert all(parameter.grad.any() for parameter in student.parameters())


def test_learning_from_a_teacher_leads_to_it():
    """Almost without noise the student comes to answer as the teacher does, though the labels say nothing."""
    teacher, student, method = network(3), network(4), None
    batch = batch_of(64)
    method = Distillation(1e-3, teacher, weight=1.0, temperature=1.0)
    optimiser = torch.optim.Adam(student.parameters(), lr=0.02)
    losses = []
    for _ in range(200):
        optimiser.zero_grad()
        losses.append(method.score(student, batch).loss)
        losses[-1].backward()
        optimiser.step()
    assert losses[-1] < 1e-3 * losses[0]


def described(**more):
    said = {"architecture": "small-cnn", "classes": 4, "input_shape": (1, 8, 8), "options": {"width": 4}, **more}
    return models.create(Description(**said))


def test_teachers_of_other_data_are_refused(tmp_path):
    with pytest.raises(RequestError, match=r"takes images of shape \(1, 8, 8\), and these are \(1, 4, 4\)"):
        Distillation(0.5, described()).score(network(0), batch_of())
    with pytest.raises(RequestError, match="the teacher network has 3 classes and the network trained 4"):
        Distillation(0.5, network(0, classes=3)).score(network(0), batch_of())
    with pytest.raises(RequestError, match="needs a teacher, and got none"):
        Distillation(0.5)
    path = tmp_path / "teacher.safetensors"
    models.save(path, described(sigma=0.15))
    plan = Distillation(0.5, path).plan()
    assert plan["teacher"] == models.fingerprint(path)
    assert plan["weight"] == 0.9
