"""The routers of a pipeline: the labels that teach them, their training, and the systems they make."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sigmax import models
from sigmax.certify.dual import Dual
from sigmax.certify.dual_rule import Combination
from sigmax.certify.scheme import Scheme
from sigmax.certify.smoothed import Smoothed
from sigmax.errors import RequestError
from sigmax.system.folder import fingerprint
from sigmax.train.balance import lean
from sigmax.train.label_parts import best_of, joined, with_routes
from sigmax.train.labels import Floats, Labels, make_labels, read_labels
from sigmax.train.pipeline_balance import Balance, Leans
from sigmax.train.pipeline_config import PipelineConfig
from sigmax.train.pipeline_data import LabelPart, PipelineData
from sigmax.train.pipeline_files import labelled
from sigmax.train.pipeline_phase import Advance, OnWarning, Phase
from sigmax.train.pipeline_tree import Node
from sigmax.train.router import train_router

# (fine-tunings, how networks vote, fold) -> the experts then
LoadExperts = Callable[[int, Mapping[str, Any], int], list[Scheme]]


@dataclass(frozen=True)
class Routers:
    """Everything about routers. `count`: the step they are trained in, from 1; `tuned`: fine-tunings before it."""

    config: PipelineConfig
    data: PipelineData
    experts: LoadExperts
    network: Callable[[int], models.Classifier]  # that an expert was trained as, by its place
    on_warning: OnWarning | None = None

    def phases(self, count: int, tuned: int) -> Iterator[Phase]:
        """Labels of the experts, then each router of the tree, those below first."""
        labels = self._labels(count)
        for part in self.data.parts(labels) if self._taught else ():
            work = partial(self._label, part, tuned)
            named = str(part.folder.relative_to(self.config.out))
            yield Phase(f"make {named}", (part.folder,), work, partial(labelled, part.folder))
        for node in self.config.tree.routers():
            router = self._file(count, node)
            sure_of = self.config.router_of(node).sure_of
            if sure_of is not None:
                take = partial(self._take, node, count, sure_of)
                yield Phase(f"make {router.stem}", (router,), take, router.is_file)
                continue
            train = partial(self._train, node, count, tuned)
            yield Phase(f"train {router.stem}", (router,), train, router.is_file)
            if node.inner is not None and self.config.labels.inner == "measured":
                folder = self._measured(count, node)
                measure = partial(self._measure, node, count, tuned)
                yield Phase(f"make {folder.name}", (folder,), measure, partial(labelled, folder))
        yield from self.balance(count).phases()

    def system(
        self,
        node: Node,
        rule: Combination,
        *,
        count: int,
        experts: Sequence[Scheme],
        how: Mapping[str, Any],
        leans: Leans,
    ) -> Scheme:
        """A part of the tree over these experts, with a step's routers, each leaning as told, if at all."""
        if node.is_expert:
            return experts[node.experts[0]]
        model = self._kept(models.load(self._file(count, node))[0])
        if leans:
            lean(model, leans[node.inner])
        sigma, classes = self.config.router_of(node).sigma, model.description.classes
        told: dict[str, Any] = {"count": count, "experts": experts, "how": how, "leans": leans}
        below = [self.system(route, rule, **told) for route in self.config.asked(node)]
        return Dual(Smoothed(model, sigma=sigma, classes=classes, **how), below, rule=rule)

    def balance(self, count: int) -> Balance:
        """How much the routers of a step lean."""
        return Balance(
            self.config,
            self.data,
            expert=lambda place: self._kept(self.network(place)),
            router=lambda node: self._kept(models.load(self._file(count, node))[0]),
        )

    def _kept(self, network: models.Classifier) -> models.Classifier:
        """A network with its weights as they are kept."""
        if self.config.store == "bf16":
            models.round_weights(network)
        return network

    def _labels(self, count: int) -> Path:
        return self.config.out / f"labels-{count}"

    def _measured(self, count: int, node: Node) -> Path:
        return self.config.out / f"labels-{count}-inner-{node.inner}"

    def _file(self, count: int, node: Node) -> Path:
        inner = "" if node.inner is None else f"-inner-{node.inner}"
        return self.config.out / "nets" / f"router-{count}{inner}.safetensors"

    def _label(self, part: LabelPart, tuned: int, watch: Advance) -> None:
        how = self.config.labels.how(self.config.device)
        self._make_labels(self.experts(tuned, how, part.fold), part, part.folder, watch)

    def _measure(self, node: Node, count: int, tuned: int, watch: Advance) -> None:
        """Label with a router and its experts as one."""
        how, (part,) = self.config.labels.how(self.config.device), self.data.parts(self._labels(count))
        experts = self.experts(tuned, how, -1)
        system = self.system(node, "consensus", count=count, experts=experts, how=how, leans={})
        self._make_labels([system], part, self._measured(count, node), watch)

    def _make_labels(self, experts: Sequence[Scheme], part: LabelPart, folder: Path, watch: Advance) -> None:
        how = self.config.labels
        make_labels(
            experts,
            self.data.of(part),
            folder,
            n=how.n,
            n0=how.n0,
            alpha=how.alpha,
            fraction=how.fraction,
            sample_seed=how.sample_seed,
            seed=how.seed,
            sampling=how.question,
            watch=watch,
        )

    @property
    def _taught(self) -> bool:
        """Whether any router learns from labels."""
        return any(self.config.router_of(node).sure_of is None for node in self.config.tree.routers())

    def _take(self, node: Node, count: int, place: int, watch: Advance) -> None:
        """Make an expert's network the router: its sureness decides."""
        path = self._file(count, node)
        told = self.config.router_of(node)
        made = models.sureness(self.network(place), sigma=told.sigma, names=told.names)
        if not path.exists():
            models.save(path, made)
        elif models.fingerprint(path) != models.fingerprint(made):
            raise RequestError(f"{path} is about another expert than {place}; delete it, or choose another out")
        watch(1, 1)

    def _train(self, node: Node, count: int, tuned: int, watch: Advance) -> None:
        how = self.config.router_of(node)
        train_router(
            self.data.train,
            self.labels_of(node, count, tuned),
            architecture=how.model,
            options=how.options,
            normalisation=how.normalise,
            sigma=how.sigma,
            start=None if how.start is None else self.network(how.start),
            settings=how.training,
            held_out=how.held_out,
            out=self._file(count, node),
            on_step=watch,
            on_warning=self.on_warning,
            **how.loss,
        )

    def labels_of(self, node: Node, count: int, tuned: int) -> Labels:
        """The labels that a router of the tree is trained on: of experts, and of routed experts if it has them."""
        how = self.config.labels.how(self.config.device)
        experts = self.experts(tuned, how, -1)
        whole = self.whole(count, experts)
        if node.inner is None and not self.config.inner:
            return whole
        told: dict[str, Any] = {"count": count, "experts": experts, "how": how, "leans": {}}
        systems = [self.system(route, "consensus", **told) for route in node.routes]
        return with_routes(
            whole,
            [self._radii(route, whole, count) for route in node.routes],
            sigmas=[whole.sigmas[r.experts[0]] if r.is_expert else float("nan") for r in node.routes],
            experts=[fingerprint(system) for system in systems],
        )

    def whole(self, count: int, experts: Sequence[Scheme]) -> Labels:
        """The labels of all experts, told as those of the final ones."""
        parts = self.data.parts(self._labels(count))
        found = [read_labels(part.folder) for part in parts]
        if parts[0].fold < 0:
            found[0].check(experts)
        if parts[0].indices is None:
            return found[0]
        places = [
            (part.indices, labels) for part, labels in zip(parts, found, strict=True) if part.indices is not None
        ]
        return joined(self.data.train, places, [fingerprint(expert) for expert in experts])

    def _radii(self, route: Node, whole: Labels, count: int) -> Floats:
        if route.is_expert or self.config.labels.inner == "best":
            return best_of(whole, route.experts)
        measured: Floats = read_labels(self._measured(count, route)).radii[:, 0]
        return measured
