"""Labels for a router: how far each expert certifies the true class of each training input, kept as a folder.

# R_i: the radius that expert i certifies for an input's true class; 0 where it certifies another class, or none

Source: the training of the router in Dual randomized smoothing.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sigmax.data import Dataset
from sigmax.errors import RequestError
from sigmax.jobs.certify import arithmetic, certify_run
from sigmax.jobs.label.folder import FORMAT, Head, begin, is_whole, read_head, recorded, shuffled, size_of
from sigmax.noise.addressed import check_uint64
from sigmax.progress import Watch, counting_on, shown
from sigmax.radius.noise import level_in
from sigmax.records.rounding import share_down
from sigmax.records.run import Run
from sigmax.request import refuse_other
from sigmax.rules.certificate import rounded_down
from sigmax.rules.checks import check_norms
from sigmax.rules.registry import check_part
from sigmax.rules.routed.parts import expert_name
from sigmax.rules.sampling import Kind, Sampling
from sigmax.rules.sampling import asked as asked_of
from sigmax.schemes.scheme import Scheme, expect_scheme
from sigmax.systems.behaviour import behaviour
from sigmax.systems.folder import fingerprint

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Labels:
    """R_i of N labelled inputs under K experts; each holds with probability 1 - alpha, like any certificate.

    radii    (N, K), R_i of every labelled input, experts from least noise to most
    indices  (N,) rising, where the inputs stand in the whole data set
    labels   (N,) their true classes
    sigmas   the experts' noise; nan where an expert has none of its own
    experts  the experts' fingerprints (`sigmax.systems.fingerprint` of each alone)
    data     name, split, fingerprint and number of inputs of the whole data set; `labelled`, how many have labels
    """

    radii: Floats
    indices: Ints
    labels: Ints
    sigmas: tuple[float, ...]
    experts: tuple[str, ...]
    data: Mapping[str, Any]

    def __post_init__(self) -> None:
        expected = (len(self.indices), len(self.experts))
        if self.radii.shape != expected or len(self.labels) != expected[0] or len(self.sigmas) != expected[1]:
            raise RequestError(
                f"labels need a radius for each of {expected[0]} inputs and {expected[1]} experts; got radii of "
                f"shape {self.radii.shape}, {len(self.labels)} true classes and {len(self.sigmas)} sigmas"
            )
        for name in ("radii", "indices", "labels"):
            view = getattr(self, name).view()
            view.flags.writeable = False  # the fingerprint speaks of them
            object.__setattr__(self, name, view)

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def kept(self) -> NDArray[np.bool_]:
        """(N,) whether some expert certifies the true class; the others teach a router nothing and are dropped."""
        return np.asarray((self.radii > 0).any(axis=1))

    @property
    def dropped(self) -> float:
        """The share of labelled inputs that no expert certifies."""
        return float(1 - self.kept.mean())

    @property
    def best(self) -> Ints:
        """(N,) the expert with the largest radius, the first of equals; means nothing where not kept."""
        return np.asarray(self.radii.argmax(axis=1), dtype=np.int64)

    @property
    def shares(self) -> Floats:
        """(K,) the share of kept inputs that each expert is best for; all 0 when none is kept."""
        counts = np.bincount(self.best[self.kept], minlength=len(self.experts))
        return counts / max(1, int(self.kept.sum()))

    def _repr_html_(self) -> str:
        from sigmax.rules.notebook import page, paragraph, table

        head = f"Labels of {len(self):,} inputs of {self.data['name']} {self.data['split']}"
        dropped = int((~self.kept).sum())
        rows = [
            (f"expert-{i}", f"{sigma:g}", f"{share_down(100 * float(share))}%", rounded_down(float(mean)))
            for i, (sigma, share, mean) in enumerate(
                zip(self.sigmas, self.shares, self.radii.mean(axis=0), strict=True)
            )
        ]
        shown = table(("expert", "sigma", "best for", "mean radius"), rows)
        return page(paragraph(f"{head}; {dropped:,} that no expert certifies.", strong=True), shown)

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits that identify the radii, the inputs, the data and the experts."""
        said = f"sigmax labels 1 {self.data['fingerprint']} {self.experts} {self.radii.shape}"
        digest = hashlib.sha256(said.encode())
        digest.update(self.indices.astype("<i8").tobytes())
        digest.update(self.radii.astype("<f8").tobytes())
        return digest.hexdigest()[:32]

    def check(self, experts: Sequence[Scheme]) -> None:
        """Raise unless the labels were made for these experts, in this order."""
        here = {expert_name(i): fingerprint(expert) for i, expert in enumerate(experts)}
        there = {expert_name(i): expert for i, expert in enumerate(self.experts)}
        advice = "Give the experts that were labelled, in their order, or label the data with these"
        refuse_other(there, here, "the labels were made for other experts", advice)

    def select(self, dataset: Dataset) -> Dataset:
        """The kept inputs as a data set of their own; its rows are those of `radii[kept]`."""
        if dataset.fingerprint != self.data["fingerprint"]:
            raise RequestError(
                f"the labels were made for {self.data['name']} {self.data['split']} (fingerprint "
                f"{self.data['fingerprint']}), got {dataset!r} with fingerprint {dataset.fingerprint}; "
                "give the whole data set that was labelled"
            )
        if not self.kept.any():
            raise RequestError(
                f"no expert certifies any of the {len(self)} labelled inputs, so nothing is left to train on; "
                "label with experts trained for their noise, with more samples (n), or with more of the data"
            )
        return dataset.take(self.indices[self.kept])


def make_labels(
    experts: Sequence[Scheme],
    dataset: Dataset,
    folder: str | Path,
    *,
    n: int = 100,
    n0: int = 20,
    alpha: float = 1e-3,
    fraction: float = 1.0,
    sample_seed: int = 0,
    seed: int = 0,
    sampling: Kind | Sampling = "fixed",
    targets: Sequence[float] | float | None = None,
    tolerance: float | None = None,
    workers: int | None = None,
    gpus_per_worker: float | None = None,
    backend: str = "local",
    watch: Watch | None = None,
) -> Labels:
    """Certify a `fraction` of the data with every expert, each into its run file in `folder`.

    Everything that can be refused is refused before the first expert starts. Labelling that was cut short goes on when
    the same is asked again, and ends with the labels of one left alone; a larger fraction, which holds the smaller,
    adds the inputs that are missing. A folder of another request is never touched.
    `sampling`, `targets`, `tolerance`: as for `certify`; with targets a label is the largest of them that holds, or a
    little more. Other options: as for `certify_run`; `watch` counts inputs over all experts together.
    """
    folder, question = Path(folder), asked_of(sampling, targets, tolerance)
    experts = _checked(experts, dataset, n0=n0, n=n, alpha=alpha, sampling=question)
    count = size_of(len(dataset), fraction)
    mixed = dataset.take(shuffled(len(dataset), check_uint64("sample_seed", sample_seed)))
    asked: dict[str, Any] = {
        "fraction": float(fraction),
        "sample_seed": int(sample_seed),
        "seed": check_uint64("seed", seed),
        "sampling": dict(question.describe()),
    }
    request = _head(experts, dataset, mixed, count, {**asked, "n0": int(n0), "n": int(n), "alpha": float(alpha)})
    head = begin(folder, request)
    runs = recorded(folder, head)
    how: dict[str, Any] = {"n0": n0, "n": n, "alpha": alpha, "seed": seed, "sampling": question}
    how |= {"workers": workers, "gpus_per_worker": gpus_per_worker, "backend": backend}
    with shown(watch, f"label {folder.name}") as advance:
        for i, (name, expert) in enumerate(zip(head["experts"], experts, strict=True)):
            if not is_whole(runs[name], head):
                shifted = counting_on(advance, i * count, len(experts) * count)
                runs[name] = certify_run(expert, mixed, folder / f"{name}.jsonl", maximum=count, watch=shifted, **how)
    return _assemble(folder, head, runs)


def read_labels(folder: str | Path) -> Labels:
    """The labels in a folder; unfinished ones are refused, with how far they got."""
    folder = Path(folder)
    head = read_head(folder)
    return _assemble(folder, head, recorded(folder, head))


def _checked(
    experts: Sequence[Scheme], dataset: Dataset, *, n0: int, n: int, alpha: float, sampling: Sampling
) -> tuple[Scheme, ...]:
    """The experts, after every check of each of them that needs no long work."""
    if not isinstance(dataset, Dataset):
        raise RequestError(f"labels are made of a data set, got {type(dataset).__name__}; use sigmax.data.load(...)")
    dataset.needed_labels("learning which expert certifies which input")
    if isinstance(experts, Scheme):
        raise RequestError("expected a list of experts, got one scheme; of a Dual give its .experts")
    if not isinstance(experts, Sequence):
        raise RequestError(f"expected a list of experts, got {type(experts).__name__}; each is a scheme")
    if not experts:
        raise RequestError("labels need at least one expert, got none; give the systems the router chooses among")
    for expert in experts:
        check_part(expect_scheme(expert, "an expert").rule)  # what no router can build on teaches none
    classes = [expert.classes for expert in experts]
    if len(set(classes)) > 1:
        raise RequestError(f"the experts must have the same classes; they have {', '.join(map(str, classes))} classes")
    if classes[0] != len(dataset.classes):
        raise RequestError(
            f"the experts have {classes[0]} classes, but {dataset.name} has {len(dataset.classes)}; "
            "label the data the experts were trained for"
        )
    check_norms({expert_name(i): expert.rule for i, expert in enumerate(experts)})
    first = dataset.pixels([0])
    for expert in experts:
        expert.check_question(n0=n0, n=n, alpha=alpha, sampling=sampling)
        expert.check(first)
    return tuple(experts)


def _head(experts: Sequence[Scheme], dataset: Dataset, mixed: Dataset, count: int, asked: Mapping[str, Any]) -> Head:
    """The request as `labels.toml` holds it: all that the labels depend on."""
    return {
        "format": FORMAT,
        **asked,
        "data": {
            "name": dataset.name,
            "split": dataset.split,
            "fingerprint": dataset.fingerprint,
            "inputs": len(dataset),
            "shuffled": mixed.fingerprint,
            "labelled": count,
        },
        "experts": {
            expert_name(i): {
                "fingerprint": fingerprint(expert),
                "behaviour": behaviour(expert, dataset.shape),
                "arithmetic": arithmetic(expert),
            }
            for i, expert in enumerate(experts)
        },
    }


def _assemble(folder: Path, head: Head, runs: Mapping[str, Run | None]) -> Labels:
    count, finished = head["data"]["labelled"], list[Run]()
    for name, run in runs.items():
        if run is None or not is_whole(run, head):
            done = 0 if run is None else len(run.records)
            raise RequestError(
                f"the labels in {folder} are unfinished: {name} is at input {done} of {count} ({len(runs)} experts in "
                "all); repeat the command that makes them to go on"
            )
        finished.append(run)
    radii, labels = np.zeros((count, len(runs))), np.zeros(count, np.int64)
    for i, record in ((i, record) for i, run in enumerate(finished) for record in run.records):
        radii[record.index, i] = record.certificate.radius if record.correct else 0.0
        assert record.label is not None  # data without labels was refused
        labels[record.index] = record.label
    places = shuffled(head["data"]["inputs"], check_uint64("sample_seed", head["sample_seed"]))[:count]
    rising = np.argsort(places)
    levels = (level_in(run.plan.rule) for run in finished)
    return Labels(
        radii=radii[rising],
        indices=places[rising],
        labels=labels[rising],
        sigmas=tuple(float("nan") if level is None else level[1] for level in levels),
        experts=tuple(expert["fingerprint"] for expert in head["experts"].values()),
        data=head["data"],
    )
