"""Labels for a router: how far each expert certifies the true class of each training input, kept as a folder.

# R_i: the radius that expert i certifies for an input's true class; 0 where it certifies another class, or none

Source: the training of the router in Dual randomized smoothing: n = 100 draws an input and expert, inputs that no
expert certifies are dropped.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sigmax.certify.parts import check_part
from sigmax.certify.sampling import Kind, Sampling
from sigmax.certify.sampling import asked as asked_of
from sigmax.certify.scheme import Scheme
from sigmax.data import Dataset
from sigmax.errors import RequestError
from sigmax.noise.draws import check_word
from sigmax.records.run import Run
from sigmax.system.folder import fingerprint
from sigmax.system.job import Watch, arithmetic, certify_run
from sigmax.train.label_folder import FORMAT, Head, claim, read_head, recorded, sample

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Labels:
    """R_i of N labelled inputs under K experts; each holds with probability 1 - alpha, like any certificate.

    radii    (N, K), R_i of every labelled input, experts from least noise to most
    indices  (N,) rising, where the inputs stand in the whole data set
    labels   (N,) their true classes
    sigmas   the experts' noise; nan where an expert has none of its own
    experts  the experts' fingerprints (`sigmax.system.fingerprint` of each alone)
    data     name, split, fingerprint and number of inputs of the whole data set; fingerprint and number of the
             labelled ones, `sample` and `labelled`
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

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits that identify the radii, the inputs, the data and the experts."""
        told = f"sigmax labels 1 {self.data['fingerprint']} {self.experts} {self.radii.shape}"
        digest = hashlib.sha256(told.encode())
        digest.update(self.indices.astype("<i8").tobytes())
        digest.update(self.radii.astype("<f8").tobytes())
        return digest.hexdigest()[:32]

    def check(self, experts: Sequence[Scheme]) -> None:
        """Raise unless the labels were made for these experts, in this order."""
        here = [fingerprint(expert) for expert in experts]
        if len(here) != len(self.experts):
            raise RequestError(
                f"the labels were made for {len(self.experts)} experts, got {len(here)}; "
                "label the data with the experts that the router will choose among"
            )
        differing = [
            f"expert-{i} is {new}, labelled was {old}"
            for i, (old, new) in enumerate(zip(self.experts, here, strict=True))
            if old != new
        ]
        if differing:
            raise RequestError(
                f"the labels were made for other experts ({'; '.join(differing)}); "
                "give the experts that were labelled, in their order, or label the data with these"
            )

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
                "label with experts trained for their noise, with more draws (n), or with more of the data"
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
    watch: Watch | None = None,
) -> Labels:
    """Certify a `fraction` of the data with every expert, each into its run file in `folder`.

    Everything that can be refused is refused before the first expert starts. Labelling that was cut short, killed
    or interrupted goes on when the same is asked again, and ends with the labels of one left alone; finished
    labels are returned at once, and a folder of another request is never touched.
    The inputs depend on their number, `fraction` and `sample_seed` alone; a larger fraction holds the smaller.
    `sampling`, `targets`, `tolerance`: as for `certify`; with targets a label is the largest of them that holds, or
    a little more. `watch(done, total)` counts inputs over all experts together.
    """
    folder, question = Path(folder), asked_of(sampling, targets, tolerance)
    experts = _checked(experts, dataset, n0=n0, n=n, alpha=alpha, sampling=question)
    indices = sample(len(dataset), fraction, sample_seed)
    part = dataset if len(indices) == len(dataset) else dataset.take(indices)
    asked: dict[str, Any] = {
        "fraction": float(fraction),
        "sample_seed": int(sample_seed),
        "seed": check_word("seed", seed),
    }
    if question.kind != "fixed":  # labels made before there was a choice do not name it
        asked["sampling"] = dict(question.describe())
    head = _head(experts, dataset, part, {**asked, "n0": int(n0), "n": int(n), "alpha": float(alpha)})
    claim(folder, head)
    runs = recorded(folder, head)
    for i, (name, expert) in enumerate(zip(head["experts"], experts, strict=True)):
        found = runs[i]
        if found is None or not found.finished:
            out, shifted = folder / f"{name}.jsonl", _shifted(watch, i * len(part), len(experts))
            how: dict[str, Any] = {"n0": n0, "n": n, "alpha": alpha, "seed": seed, "sampling": question}
            runs[i] = certify_run(expert, part, out, **how, watch=shifted)
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
        raise RequestError(
            f"labels are made of a data set, got {type(dataset).__name__}; use sigmax.data.load(...)"
        )
    if isinstance(experts, Scheme):
        raise RequestError("expected a list of experts, got one scheme; of a Dual give its .experts")
    if not experts:
        raise RequestError("labels need at least one expert, got none; give the systems the router chooses among")
    for expert in experts:
        if not isinstance(expert, Scheme):
            raise RequestError(
                "experts must be schemes such as Smoothed(model, sigma=0.5, classes=10); "
                f"got {type(expert).__name__}"
            )
        check_part(expert.rule)  # what no router can build on teaches none
    classes = [expert.classes for expert in experts]
    if len(set(classes)) > 1:
        raise RequestError(
            f"the experts must tell the same classes apart; they tell {', '.join(map(str, classes))} classes"
        )
    if classes[0] != len(dataset.classes):
        raise RequestError(
            f"the experts tell {classes[0]} classes apart, but {dataset.name} has {len(dataset.classes)}; "
            "label the data the experts were trained for"
        )
    first = dataset.pixels([0])
    for expert in experts:
        expert.check_question(n0=n0, n=n, alpha=alpha, sampling=sampling)
        expert.check(first)
    return tuple(experts)


def _head(experts: Sequence[Scheme], dataset: Dataset, part: Dataset, asked: Mapping[str, Any]) -> Head:
    """The request as `labels.toml` holds it: all that the labels depend on."""
    return {
        "format": FORMAT,
        **asked,
        "data": {
            "name": dataset.name,
            "split": dataset.split,
            "fingerprint": dataset.fingerprint,
            "inputs": len(dataset),
            "sample": part.fingerprint,
            "labelled": len(part),
        },
        "experts": {
            f"expert-{i}": {"fingerprint": fingerprint(expert), "arithmetic": arithmetic(expert)}
            for i, expert in enumerate(experts)
        },
    }


def _assemble(folder: Path, head: Head, runs: Sequence[Run | None]) -> Labels:
    indices = sample(head["data"]["inputs"], head["fraction"], head["sample_seed"])
    finished: list[Run] = []
    for name, run in zip(head["experts"], runs, strict=True):
        if run is None or not run.finished:
            raise RequestError(
                f"the labels in {folder} are unfinished: {name} is at input {len(run.records) if run else 0} of "
                f"{len(indices)} ({len(runs)} experts in all); repeat the command that makes them to go on"
            )
        finished.append(run)
    radii, labels = np.zeros((len(indices), len(runs))), np.zeros(len(indices), np.int64)
    for i, run in enumerate(finished):
        for record in run.records:
            radii[record.index, i] = record.certificate.radius if record.correct else 0.0
            labels[record.index] = record.label
    sigmas = (run.plan.rule.get("sigma") for run in finished)
    return Labels(
        radii=radii,
        indices=indices,
        labels=labels,
        sigmas=tuple(float(sigma) if sigma is not None else float("nan") for sigma in sigmas),
        experts=tuple(expert["fingerprint"] for expert in head["experts"].values()),
        data=head["data"],
    )


def _shifted(watch: Watch | None, before: int, experts: int) -> Watch | None:
    """The same watch, counting on from the experts before."""
    return watch and (lambda done, total: watch(before + done, experts * total))
