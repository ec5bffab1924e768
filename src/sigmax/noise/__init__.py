"""Noise distributions as users pass them, and how each is sampled.

    sx.Smoothed(model, noise=sx.noise.Gaussian(0.5), classes=10)

What a distribution proves (its score) lives in `sigmax.radius.noise`, free of torch. A distribution to add needs a
score there and a `Sampler` here, registered under its name.
"""

from sigmax.noise.gaussian import GaussianSampler
from sigmax.noise.sampler import Sampler, register, sampler_of
from sigmax.noise.uniform import UniformSampler
from sigmax.radius.noise import Gaussian, Noise
from sigmax.radius.uniform import Uniform

__all__ = ["Gaussian", "GaussianSampler", "Noise", "Sampler", "Uniform", "UniformSampler", "register", "sampler_of"]
