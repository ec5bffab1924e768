"""The last step of a pipeline's routers: how much each leans, chosen on the images held out (see `balance`)."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sigmax import models
from sigmax.errors import RequestError
from sigmax.train.balance import (
    Floats,
    Proof,
    Votes,
    best_leans,
    expert_radii,
    logits_of,
    read_leans,
    write_leans,
)
from sigmax.train.partial import plan_of
from sigmax.train.pipeline_config import PipelineConfig
from sigmax.train.pipeline_data import PipelineData
from sigmax.train.pipeline_phase import Advance, Phase
from sigmax.train.pipeline_tables import DTYPES
from sigmax.train.pipeline_tree import Node

Leans = Mapping[int | None, float]  # of the routers of a tree, by their place in it


@dataclass(frozen=True)
class Balance:
    """The routers of a tree, brought into balance where the configuration asks for it."""

    config: PipelineConfig
    data: PipelineData
    expert: Callable[[int], models.Classifier]  # the network of an expert, as it is kept
    router: Callable[[Node], models.Classifier]  # the network of a router, likewise

    @property
    def file(self) -> Path:
        """Where the leans are kept."""
        return self.config.out / "leans.json"

    def phases(self) -> Iterator[Phase]:
        """The one piece of work, if any."""
        if self.config.balance is not None:
            yield Phase("balance routers", (self.file,), self.choose, self.file.is_file)

    def leans(self) -> Leans:
        """How much each router leans, as was chosen; empty where nothing was asked for."""
        if self.config.balance is None:
            return {}
        leans = read_leans(self.file, self._plan())
        assert leans is not None, "routers are put to use after they are balanced"
        if leans.keys() != {router.inner for router in self.config.tree.routers()}:
            raise RequestError(f"{self.file} is of another tree of routers; delete it to choose anew")
        return leans

    def choose(self, watch: Advance) -> None:
        """Ask all networks about the images held out and keep the best leans, unless that is done."""
        asked, plan = self.config.balance, self._plan()
        assert asked is not None
        if read_leans(self.file, plan) is None:
            leans, promised = best_leans(self.config.tree, self._votes(asked.draws, watch), asked.radii, asked.goal)
            write_leans(self.file, leans, {"promised": promised.tolist(), "plan": plan})

    def _plan(self) -> dict[str, Any]:
        """All that the choice depends on."""
        config, nodes = self.config, list(self.config.tree.routers())
        told = config.certify
        return {
            **plan_of(config.balance),
            "routers": [(models.fingerprint(self.router(node)), config.router_of(node).sigma) for node in nodes],
            "experts": [
                (models.fingerprint(self.expert(place)), sigma) for place, sigma in enumerate(config.experts.sigmas)
            ],
            **({"bound": config.experts.bound} if config.experts.bound != "one-sided" else {}),
            "images": self.data.held_out.fingerprint,
            "votes": {"n": told.n, "alpha": told.alpha, "seed": told.seed, "dtype": told.dtype},
        }

    def _votes(self, draws: int, watch: Advance) -> Votes:
        routers, asked = list(self.config.tree.routers()), sorted(self._asked(self.config.tree))
        total = len(asked) + len(routers)
        radii = [np.zeros(len(self.data.held_out))] * self.config.count
        for done, place in enumerate(asked):
            watch(done, total)
            radii[place] = self._expert_radii(place, draws)
        logits = {}
        for done, node in enumerate(routers, start=len(asked)):
            watch(done, total)
            sigma = self.config.router_of(node).sigma
            logits[node.inner] = (self._logits(self.router(node), sigma, draws), sigma)
        watch(total, total)
        names = frozenset(node.inner for node in routers if self.config.router_of(node).names)
        return Votes(radii, logits, self._proof, labels=np.asarray(self.data.held_out.labels), names=names)

    def _asked(self, node: Node) -> set[int]:
        """The experts that certify classes themselves; a router that names answers for its last one."""
        if node.is_expert:
            return set(node.experts)
        return {place for route in self.config.asked(node) for place in self._asked(route)}

    @property
    def _proof(self) -> Proof:
        """What a certificate could show, about: alpha is shared by the stages, here evenly."""
        told, routers = self.config.certify, len(list(self.config.tree.routers()))
        return Proof(told.n, told.alpha / (routers + 2))

    def _expert_radii(self, place: int, draws: int) -> Floats:
        """How far an expert would certify each image held out."""
        sigma, labels = self.config.experts.sigmas[place], np.asarray(self.data.held_out.labels)
        proof = replace(self._proof, network=place)
        logits = self._logits(self.expert(place), sigma, draws)
        return expert_radii(logits, labels, sigma, proof, self.config.experts.bound)

    def _logits(self, network: models.Classifier, sigma: float, draws: int) -> NDArray[np.float32]:
        """What a network answers to the images held out."""
        device, held = self.config.device, self.data.held_out
        pixels = torch.from_numpy(held.pixels(range(len(held)))).to(device)
        generator = torch.Generator(device).manual_seed(self.config.certify.seed)
        with _as_certified(device, DTYPES[self.config.certify.dtype]):
            return logits_of(network.to(device).eval(), pixels, sigma, draws=draws, generator=generator)


@contextmanager
def _as_certified(device: str, dtype: torch.dtype) -> Iterator[None]:
    """Networks answer in the arithmetic in which they will vote."""
    if dtype == torch.float32:
        yield
    else:
        with torch.autocast(device.partition(":")[0], dtype):
            yield
