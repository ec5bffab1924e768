"""What the networks of a system compute: the part of its identity that its fingerprint cannot hold.

Two modules with the same weights and different code in `forward` share a fingerprint. So a system's folder and a run's
plan also hold each network's outputs on fixed probe inputs (`sigmax.engine.probes`), compared with a tolerance. Code
that computes something else on other inputs alone is not seen. A plain function has nothing but its name and its
behaviour, so it gets more probes, and a run's plan says so.
"""

from collections.abc import Sequence
from typing import Any

from sigmax import models
from sigmax.engine import probes
from sigmax.models import Denoised
from sigmax.models.selective import Selective
from sigmax.schemes.scheme import Scheme

Behaviour = dict[str, dict[str, Any]]  # of each network by its name: what `sigmax.request` compares
HINT = "what the network computes on probe inputs: its code or its normalisation is not the same"


def behaviour(scheme: Scheme, shape: Sequence[int]) -> Behaviour:
    """The behaviour of every network on inputs of this shape; one that serves in several places is run once."""
    found: dict[tuple[int, float], dict[str, Any]] = {}
    named: Behaviour = {}
    for name, voter in scheme.voters.items():
        sigma = scheme.sigma_of(name)
        key = id(voter.model), sigma  # of one model every voter gives the same
        if key not in found:
            found[key] = probes.behaviour(voter, shape, sigma)
        named[name] = found[key]
    return named


def known_by_behaviour_alone(scheme: Scheme) -> list[str]:
    """The networks, by their names, that nothing identifies but their name and their outputs on probe inputs."""
    return [name for name, voter in scheme.voters.items() if probes.known_by_behaviour_alone(voter.model)]


def input_shape(scheme: Scheme) -> tuple[int, int, int]:
    """The shape of inputs that the networks of a folder are for."""
    for voter in scheme.voters.values():
        model = voter.model.model if isinstance(voter.model, Selective) else voter.model
        described = models.describe(model.classifier if isinstance(model, Denoised) else model)
        if described is not None:
            return described.input_shape
    raise AssertionError("a network of a folder has a description")
