"""The options of votes: how many, what is asked of them, and on which device in which arithmetic."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from sigmax.config.toml import Place
from sigmax.config.validation import Count, Options, Positive, Probability, Uint64, Weight, about
from sigmax.radius.noise import FINEST_GRID
from sigmax.rules.checks import check_question
from sigmax.rules.procedure import Rule
from sigmax.rules.sampling import Sampling, asked

DATA, SYSTEM = Place(prefixes=True), Place(names=("zoo:", "hub:"))  # how places are written
Source = Annotated[
    str, DATA, about("digits, mnist:PATH, fashion:PATH, cifar10:PATH, cifar100:PATH, npz:FILE or folder:PATH")
]
Grid = Annotated[int, Field(ge=1, le=FINEST_GRID)]  # steps from 0 to 1


class Selection(Options):
    """Which inputs of a split are certified."""

    start: Annotated[int, about("index of the first input")] = 0
    skip: Annotated[int, about("take every SKIP-th input")] = 1
    max: Annotated[int | None, about("take at most this many inputs")] = None

    @property
    def inputs(self) -> dict[str, Any]:
        """As keywords of `select` and `certify_run`."""
        return {"start": self.start, "skip": self.skip, "maximum": self.max}


class VotingConfig(Options):
    """Votes of any kind."""

    n0: Annotated[Count, about("samples that pick the class")] = 100
    n: Annotated[Count, about("samples that bound its probability")] = 10_000
    alpha: Annotated[Probability, about("chance that a certificate is wrong")] = 1e-3
    seed: Annotated[Uint64, about("seed of the noise")] = 0
    sampling: Annotated[
        Literal["fixed", "adaptive"], about("`fixed`: exactly n samples; `adaptive`: no more than can matter")
    ] = "fixed"
    targets: Annotated[tuple[Weight, ...], about("adaptive: ask only which of these radii hold")] = ()
    tolerance: Annotated[
        Positive | None, about("adaptive: stop once the radius is known to within this share of sigma")
    ] = None
    device: Annotated[str | None, about("where networks vote, if not on the file's device")] = None
    dtype: Annotated[Literal["fp32", "bf16", "fp16"], about("arithmetic of the networks")] = "fp32"
    compile: Annotated[
        Literal["off", "default", "graphs", "tuned", "denoiser", "auto"],
        about("how networks are compiled, as `certify` says"),
    ] = "off"
    batch: Annotated[Count | None, about("noisy inputs in a forward pass")] = None

    @model_validator(mode="after")
    def _asks_something(self) -> "VotingConfig":
        _ = self.question
        return self

    @property
    def question(self) -> Sampling:
        """What is asked of each input, and so when its sampling may stop."""
        return asked(self.sampling, self.targets or None, self.tolerance)

    @property
    def request(self) -> dict[str, Any]:
        """What every certification is asked, as keywords."""
        numbers = {name: getattr(self, name) for name in ("n0", "n", "alpha", "seed")}
        return {**numbers, "sampling": self.question}

    def how(self, device: str) -> dict[str, Any]:
        """How networks vote, as keywords of `Smoothed` and `load`; `device` where none is named."""
        return {
            "device": self.device or device,
            "dtype": self.dtype,
            "compile": self.compile,
            "batch": self.batch,
        }

    def check(self, rule: Rule) -> None:
        """Raise where so many votes could never certify by this rule, or reach none of the targets."""
        check_question(rule, n0=self.n0, n=self.n, alpha=self.alpha, sampling=self.question)
