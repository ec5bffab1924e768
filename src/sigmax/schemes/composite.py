"""What schemes made of other schemes have in common: networks, noise and fields of all parts by their names."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from sigmax.engine.voter import Voter
from sigmax.errors import RequestError
from sigmax.rules.certificate import joined
from sigmax.rules.procedure import Rule
from sigmax.rules.registry import check_part
from sigmax.schemes.fields import SigmaField
from sigmax.schemes.scheme import Domain, Scheme, expect_scheme


class Composite(Scheme):
    """A rule over parts, each a scheme with a name."""

    def __init__(self, rule: Rule, parts: Mapping[str, Scheme]) -> None:
        super().__init__(rule, _voters(parts), domain=_domain(parts), grid=input_grid(parts))
        self.noise_grid = common_grid(parts)
        self.parts = dict(parts)

    def sigma_of(self, network: str) -> float:
        """The noise of the part that the network belongs to."""
        part, inner = next(
            (part, network.removeprefix(f"{name}/"))
            for name, part in self.parts.items()
            if network.startswith(f"{name}/")
        )
        return part.sigma_of(inner)

    def own_noise(self, x: Tensor, ids: Sequence[int], seed: int) -> Mapping[str, Sequence[float]]:
        """What its parts ask for."""
        found = {name: part.own_noise(x, ids, seed) for name, part in self.parts.items()}
        return {joined(name, stage): noise for name, by_stage in found.items() for stage, noise in by_stage.items()}

    @property
    def fields(self) -> Mapping[str, SigmaField]:
        """Those of its parts."""
        return {joined(name, place): f for name, part in self.parts.items() for place, f in part.fields.items()}


def check_scheme(value: object, what: str) -> Scheme:
    """The scheme, if another can build on its certificates."""
    scheme = expect_scheme(value, what)
    check_part(scheme.rule)
    return scheme


def _voters(parts: Mapping[str, Scheme]) -> dict[str, Voter]:
    """The voters of all parts by their names in the whole; a network used twice is one voter, in fuller batches."""
    voters: dict[str, Voter] = {}
    for name, part in parts.items():
        for inner, voter in part.voters.items():
            voters[joined(name, inner)] = next((known for known in voters.values() if known.like(voter)), voter)
    return voters


def common_grid(parts: Mapping[str, Scheme]) -> int | None:
    """The grid of all parts with noise; a part without any takes inputs of every grid."""
    grids = {name: part.noise_grid for name, part in parts.items() if part.rule.is_random}
    if len(set(grids.values())) > 1:
        listed = ", ".join(f"{name}: {grid}" for name, grid in grids.items())
        raise RequestError(f"the noise of all parts must have the same grid, or none; they have {listed}")
    return next(iter(grids.values()), None)


def input_grid(parts: Mapping[str, Scheme]) -> int | None:
    """The grid that inputs must be on: that of the noise, or of a part that looks at quantised images alone."""
    common_grid(parts)
    grids = {name: part.grid for name, part in parts.items() if part.grid is not None}
    if len(set(grids.values())) > 1:
        listed = ", ".join(f"{name}: {grid}" for name, grid in grids.items())
        raise RequestError(f"all parts must take inputs of the same grid; they have {listed}")
    return next(iter(grids.values()), None)


def _domain(parts: Mapping[str, Scheme]) -> Domain:
    domains = {name: part.domain for name, part in parts.items()}
    first = next(iter(domains.values()))
    if any(domain != first for domain in domains.values()):
        listed = ", ".join(f"{name}: {domain}" for name, domain in domains.items())
        raise RequestError(f"all parts must accept the same range of inputs; their domains are {listed}")
    return first
