"""From confidence bounds to certified radii, one theorem a file, without torch."""

from sigmax.radius.cascade import LevelBounds, answer_radius, cascade, cascade_of_radii, exclusion_radius
from sigmax.radius.elastic.ratio_limits import ratio_limits, sharp_ratio_limits
from sigmax.radius.elastic.semi_elastic import semi_elastic, xi
from sigmax.radius.gaussian import gaussian, largest
from sigmax.radius.implied import implied_linf
from sigmax.radius.lipschitz import lipschitz, rounding
from sigmax.radius.memory import Memory, settle
from sigmax.radius.noise import Gaussian, Noise
from sigmax.radius.routed import routed
from sigmax.radius.smoothed import smoothed
from sigmax.radius.splitting import Split, splitting
from sigmax.radius.uniform import Uniform, largest_uniform, uniform

__all__ = [
    "Gaussian",
    "LevelBounds",
    "Memory",
    "Noise",
    "Split",
    "Uniform",
    "answer_radius",
    "cascade",
    "cascade_of_radii",
    "exclusion_radius",
    "gaussian",
    "implied_linf",
    "largest",
    "largest_uniform",
    "lipschitz",
    "ratio_limits",
    "rounding",
    "routed",
    "semi_elastic",
    "settle",
    "sharp_ratio_limits",
    "smoothed",
    "splitting",
    "uniform",
    "xi",
]
