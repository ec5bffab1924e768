"""sigmax: certified robustness by randomized smoothing with input-dependent noise.

Names load on first use, so that `import sigmax.bounds` needs neither torch nor pandas.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sigmax.version import __version__ as __version__

if TYPE_CHECKING:
    from sigmax import bounds as bounds
    from sigmax import data as data
    from sigmax import jobs as jobs
    from sigmax import models as models
    from sigmax import noise as noise
    from sigmax import pipeline as pipeline
    from sigmax import planning as planning
    from sigmax import radius as radius
    from sigmax import report as report
    from sigmax import systems as systems
    from sigmax import train as train
    from sigmax.errors import RequestError as RequestError
    from sigmax.errors import RunError as RunError
    from sigmax.jobs.attack import Attack as Attack
    from sigmax.jobs.attack import attack_run as attack_run
    from sigmax.jobs.certify import certify_run as certify_run
    from sigmax.jobs.certify import recall_run as recall_run
    from sigmax.models.denoised import Denoised as Denoised
    from sigmax.progress import silent as silent
    from sigmax.records.merge import merge as merge
    from sigmax.records.run import Run as Run
    from sigmax.records.run import read as read
    from sigmax.records.verify import verify as verify
    from sigmax.rules.certificate import Certificate as Certificate
    from sigmax.rules.certificate import Outcome as Outcome
    from sigmax.rules.certificate import Prediction as Prediction
    from sigmax.rules.certificate import Stage as Stage
    from sigmax.rules.sampling import Sampling as Sampling
    from sigmax.schemes.cascade import Cascade as Cascade
    from sigmax.schemes.cascade import Multiscale as Multiscale
    from sigmax.schemes.dual import Dual as Dual
    from sigmax.schemes.fields import NearestNeighbourSigma as NearestNeighbourSigma
    from sigmax.schemes.fields import VouchedField as VouchedField
    from sigmax.schemes.lipschitz import Lipschitz as Lipschitz
    from sigmax.schemes.memorized import Memorized as Memorized
    from sigmax.schemes.semi_elastic import SemiElastic as SemiElastic
    from sigmax.schemes.smoothed import Smoothed as Smoothed
    from sigmax.schemes.splitting import Splitting as Splitting
    from sigmax.systems.folder import load as load

_HOMES = {
    "Attack": "sigmax.jobs.attack",
    "Cascade": "sigmax.schemes.cascade",
    "Certificate": "sigmax.rules.certificate",
    "Denoised": "sigmax.models.denoised",
    "Dual": "sigmax.schemes.dual",
    "Lipschitz": "sigmax.schemes.lipschitz",
    "Memorized": "sigmax.schemes.memorized",
    "Multiscale": "sigmax.schemes.cascade",
    "NearestNeighbourSigma": "sigmax.schemes.fields",
    "Outcome": "sigmax.rules.certificate",
    "Prediction": "sigmax.rules.certificate",
    "RequestError": "sigmax.errors",
    "Run": "sigmax.records.run",
    "RunError": "sigmax.errors",
    "Sampling": "sigmax.rules.sampling",
    "SemiElastic": "sigmax.schemes.semi_elastic",
    "Smoothed": "sigmax.schemes.smoothed",
    "Splitting": "sigmax.schemes.splitting",
    "Stage": "sigmax.rules.certificate",
    "VouchedField": "sigmax.schemes.fields",
    "attack_run": "sigmax.jobs.attack",
    "certify_run": "sigmax.jobs.certify",
    "load": "sigmax.systems.folder",
    "merge": "sigmax.records.merge",
    "read": "sigmax.records.run",
    "recall_run": "sigmax.jobs.certify",
    "silent": "sigmax.progress",
    "verify": "sigmax.records.verify",
}
_MODULES = ("bounds", "data", "jobs", "models", "noise", "pipeline", "planning", "radius", "report", "systems", "train")

__all__ = [*_HOMES, *_MODULES]  # noqa: PLE0604 (they are strings)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES:
        return import_module(f"sigmax.{name}")
    raise AttributeError(f"module 'sigmax' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
