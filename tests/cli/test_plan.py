"""`sigmax plan` answers before anything is sampled."""

import pytest

from sigmax.planning import chance_to_certify


def test_how_many_samples(sigmax) -> None:
    done = sigmax("plan", "--radius", 0.5, "--sigma", 0.25, "--p", 0.99)
    assert done.returncode == 0
    assert "2,235 samples certify it with a chance of 95% where p_A is 0.99" in done.stdout
    assert "Fewer than 301 samples never do, even if all agree" in done.stdout
    assert "stays below the radius 0.5816; this one takes p_A above 0.977249." in done.stdout


def test_what_is_out_of_reach(sigmax) -> None:
    done = sigmax("plan", "--radius", 0.5, "--sigma", 0.25, "--p", 0.97)
    assert done.returncode == 0
    assert "out of reach where p_A is 0.97: however many samples, its radius stays below 0.4702." in done.stdout
    assert "or a sigma above 0.2658" in done.stdout
    done = sigmax("plan", "--radius", 0.5, "--sigma", 0.25, "--p", 0.4)
    assert "however many samples, nothing is certified" in done.stdout
    done = sigmax("plan", "--radius", 0.5, "--sigma", 0.25, "--p", 0.97725)
    assert "takes more than a billion samples" in done.stdout


def test_p_a_of_one_has_no_limit(sigmax) -> None:
    done = sigmax("plan", "--radius", 0.5, "--sigma", 0.25, "--p", 1)
    assert "301 samples certify it" in done.stdout
    assert "With p_A 1 enough samples reach every radius" in done.stdout
    done = sigmax("plan", "--radius", 5, "--sigma", 0.25, "--p", 1)
    assert "more than a billion samples where p_A is 1: even if all of them agree" in done.stdout


def test_limits_are_rounded_so_that_what_is_said_holds(sigmax) -> None:
    done = sigmax("plan", "--radius", 0.58155, "--sigma", 0.25, "--p", 0.99)  # the limit is 0.581586...
    assert "it is too close to the limit, 0.5816" in done.stdout
    done = sigmax("plan", "--radius", 5, "--sigma", 0.25, "--p", 0.99)  # 1 - Phi(20) is 2.7536e-89
    assert "It takes p_A above 1 - 2.76e-89, or a sigma above 2.149" in done.stdout
    done = sigmax("plan", "--radius", 50, "--sigma", 0.25, "--p", 0.99)
    assert "It takes p_A closer to 1 than a float can represent" in done.stdout


def test_what_so_many_samples_do(sigmax) -> None:
    done = sigmax("plan", "--radius", 0.5, "--sigma", 0.25, "--p", 0.99, "--n", 1000)
    chance = chance_to_certify(0.5, sigma=0.25, n=1000, alpha=1e-3, p=0.99)
    assert (
        f"991 votes for the class certify it, which happens with a chance of {100 * chance - 0.05:.1f}%" in done.stdout
    )
    done = sigmax("plan", "--radius", 0.5, "--sigma", 0.25, "--n", 100)
    assert "With 100 samples radius 0.5 is out of reach: even if all agree they show 0.3751" in done.stdout


def test_without_p_a_it_shows_several(sigmax) -> None:
    shown = sigmax("plan", "--radius", 0.5, "--sigma", 0.25).stdout
    for share, samples in (("0.95", "out of reach"), ("0.99", "2,235"), ("0.9999", "301")):
        assert any(share in line and samples in line for line in shown.splitlines()), share


def test_under_uniform_noise_no_radius_reaches_the_scale(sigmax) -> None:
    for words in ((), ("--p", 1)):
        shown = " ".join(sigmax("plan", "--radius", 1, "--sigma", "uniform:1", *words).stdout.split())
        assert "under uniform noise every radius stays below its scale" in shown
        assert "billion" not in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--sigma", 0), "sigma must be a positive number"),
        (("--p", 2), "p must be a probability from 0 to 1"),
        (("--alpha", 0), "alpha must lie strictly between 0 and 1"),
        (("--chance", 1), "chance must lie strictly between 0 and 1"),
        (("--radius", -1), "radius must be a number of at least 0"),
        (("--n", 0), "--n must be from 1 to 1,000,000,000 samples; got 0"),
    ],
)
def test_wrong_requests(sigmax, words, message) -> None:
    options = {"--radius": 0.5, "--sigma": 0.25, "--p": 0.9, **dict([words])}
    done = sigmax("plan", *(word for pair in options.items() for word in pair))
    assert done.returncode == 2
    assert message in done.stderr
