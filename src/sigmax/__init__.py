"""sigmax: certified robustness by randomized smoothing with input-dependent noise.

Names load on first use, so that `import sigmax.bounds` needs neither torch nor pandas.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from sigmax import bounds as bounds
    from sigmax import data as data
    from sigmax import models as models
    from sigmax import planning as planning
    from sigmax import radius as radius
    from sigmax import report as report
    from sigmax import train as train
    from sigmax.certify.dual import Dual as Dual
    from sigmax.certify.fields import NearestNeighbourSigma as NearestNeighbourSigma
    from sigmax.certify.fields import VouchedField as VouchedField
    from sigmax.certify.lipschitz import Lipschitz as Lipschitz
    from sigmax.certify.memorized import Memorized as Memorized
    from sigmax.certify.multiscale import Multiscale as Multiscale
    from sigmax.certify.sampling import Sampling as Sampling
    from sigmax.certify.semi_elastic import SemiElastic as SemiElastic
    from sigmax.certify.smoothed import Smoothed as Smoothed
    from sigmax.errors import RequestError as RequestError
    from sigmax.errors import RunError as RunError
    from sigmax.models.denoised import Denoised as Denoised
    from sigmax.records.certificate import Certificate as Certificate
    from sigmax.records.certificate import Outcome as Outcome
    from sigmax.records.certificate import Prediction as Prediction
    from sigmax.records.certificate import Stage as Stage
    from sigmax.records.run import Run as Run
    from sigmax.records.run import read as read
    from sigmax.records.verify import verify as verify
    from sigmax.system.folder import load as load
    from sigmax.system.job import certify_run as certify_run
    from sigmax.system.job import recall_run as recall_run

_HOMES = {
    "Certificate": "sigmax.records.certificate",
    "Denoised": "sigmax.models.denoised",
    "Dual": "sigmax.certify.dual",
    "Lipschitz": "sigmax.certify.lipschitz",
    "Memorized": "sigmax.certify.memorized",
    "Multiscale": "sigmax.certify.multiscale",
    "NearestNeighbourSigma": "sigmax.certify.fields",
    "Outcome": "sigmax.records.certificate",
    "Prediction": "sigmax.records.certificate",
    "RequestError": "sigmax.errors",
    "Run": "sigmax.records.run",
    "RunError": "sigmax.errors",
    "Sampling": "sigmax.certify.sampling",
    "SemiElastic": "sigmax.certify.semi_elastic",
    "Smoothed": "sigmax.certify.smoothed",
    "Stage": "sigmax.records.certificate",
    "VouchedField": "sigmax.certify.fields",
    "certify_run": "sigmax.system.job",
    "load": "sigmax.system.folder",
    "read": "sigmax.records.run",
    "recall_run": "sigmax.system.job",
    "verify": "sigmax.records.verify",
}
_MODULES = ("bounds", "data", "models", "planning", "radius", "report", "train")

__all__ = [
    "Certificate",
    "Denoised",
    "Dual",
    "Lipschitz",
    "Memorized",
    "Multiscale",
    "NearestNeighbourSigma",
    "Outcome",
    "Prediction",
    "RequestError",
    "Run",
    "RunError",
    "Sampling",
    "SemiElastic",
    "Smoothed",
    "Stage",
    "VouchedField",
    "bounds",
    "certify_run",
    "data",
    "load",
    "models",
    "planning",
    "radius",
    "read",
    "recall_run",
    "report",
    "train",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES:
        return import_module(f"sigmax.{name}")
    raise AttributeError(f"module 'sigmax' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
