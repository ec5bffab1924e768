"""The timestep whose noise is sigma, against the table of Carlini et al.'s models and against diffusers."""

import math
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sigmax.errors import RequestError
from sigmax.models.denoisers.schedule import Kind, Moments, Schedule, moments

CIFAR10 = {0.12: (573, 0.972336), 0.25: (1158, 0.894342), 0.5: (1984, 0.706886), 0.75: (2490, 0.554641)}
IMAGENET = {0.12: (70, 0.972082), 0.25: (145, 0.893294), 0.5: (259, 0.705417), 0.75: (339, 0.553027)}
TABLE = [
    *((Schedule.cosine(), sigma, *found) for sigma, found in {**CIFAR10, 1.0: (2809, 0.447209)}.items()),
    *((Schedule.linear(), sigma, *found) for sigma, found in {**IMAGENET, 1.0: (396, 0.447127)}.items()),
]


def at(schedule: Schedule, *sigmas: float) -> Moments:
    return moments(torch.from_numpy(schedule.alphas_bar), torch.tensor(sigmas, dtype=torch.float64))


@pytest.mark.parametrize(("schedule", "sigma", "timestep", "signal"), TABLE)
def test_the_published_timesteps(schedule, sigma, timestep, signal):
    found = at(schedule, sigma)
    assert found.timestep.item() == timestep
    assert round(found.signal.item(), 6) == signal
    assert found.noise.item() == pytest.approx(math.sqrt(1 - found.signal.item() ** 2), rel=1e-12)


@given(st.sampled_from([Schedule.linear(), Schedule.cosine()]), st.floats(0.01, 50))
def test_it_is_the_first_step_with_that_much_noise(schedule, sigma):
    t = at(schedule, sigma).timestep.item()
    noise = np.sqrt((1 - schedule.alphas_bar) / schedule.alphas_bar) / 2
    assert noise[t] >= sigma
    assert t == 0 or noise[t - 1] < sigma


@pytest.mark.parametrize("kind", get_args(Kind))
def test_noise_rises_from_step_to_step(kind):
    assert (np.diff(Schedule(kind, 1000).sigmas) > 0).all()


@pytest.mark.parametrize(
    ("schedule", "sigma"),
    [
        (Schedule.linear(), 0.004),
        (Schedule.linear(), 79.0),
        (Schedule.cosine(), 0.0),
        (Schedule.cosine(), math.nan),
    ],
)
def test_noise_outside_the_range_is_refused_with_the_range(schedule, sigma):
    low, high = schedule.range
    with pytest.raises(RequestError, match=rf"{low:.6g} to {high:.6g}.*got {sigma:g}"):
        schedule.check(sigma)
    with pytest.raises(RequestError, match=f"got {sigma:g}"):
        schedule.check(torch.tensor([0.5, sigma]))


def test_the_ends_of_the_range_belong_to_it():
    schedule = Schedule.linear()
    assert at(schedule, *schedule.range).timestep.tolist() == [0, 999]


@pytest.mark.parametrize("name", ["linear", "scaled_linear", "squaredcos_cap_v2"])
def test_the_schedules_are_those_of_diffusers(name):
    diffusers = pytest.importorskip("diffusers")
    theirs = diffusers.DDPMScheduler(num_train_timesteps=1000, beta_schedule=name)
    ours = Schedule.from_config(theirs.config)
    # They compute in 32 bits.
    np.testing.assert_allclose(ours.alphas_bar, theirs.alphas_cumprod.numpy(), rtol=2e-4, atol=1e-9)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"beta_schedule": "sigmoid"}, "beta_schedule is 'sigmoid'; known are: linear"),
        ({"beta_schedule": "linear", "trained_betas": [0.1, 0.2]}, "trained_betas is not supported"),
        ({"beta_schedule": "linear", "rescale_betas_zero_snr": True}, "rescale_betas_zero_snr"),
        ({"num_train_timesteps": 1}, "at least 2"),
        ({"beta_start": 0.5, "beta_end": 0.1}, "rise"),
    ],
)
def test_a_schedule_that_cannot_be_used_says_why(config, message):
    with pytest.raises(RequestError, match=message):
        Schedule.from_config(config)


def test_a_described_schedule_is_the_same():
    assert Schedule(**Schedule.cosine(500).describe()) == Schedule.cosine(500)
