"""Which images of a pipeline are for what: trained on, labelled, held out, certified."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from sigmax import data
from sigmax.config.validation import inside
from sigmax.data import Dataset
from sigmax.jobs.label.labels import Ints
from sigmax.jobs.label.parts import folds_of, rest_of, set_aside
from sigmax.pipeline.config import PipelineConfig

HELD_OUT = 1  # added to the seed of labels: images held out from labels are others than those held out from all


@dataclass(frozen=True)
class LabelPart:
    """Images that are labelled together, and by whom: fold -1 is the final experts."""

    folder: Path
    indices: Ints | None  # where they stand among the training images; None: all of these
    fold: int = -1


@dataclass(frozen=True)
class PipelineData:
    """The images of a pipeline."""

    config: PipelineConfig

    @cached_property
    def train(self) -> Dataset:
        """The images to train on and to label: all of the split but those held out."""
        whole, held = self._split
        return whole if held is None else whole.take(rest_of(len(whole), held))

    @cached_property
    def test(self) -> Dataset:
        """The images to certify."""
        if self.config.data.held_out and self.config.data.test == self.config.data.train:
            return self.held_out
        return self._load(self.config.data.test)

    @cached_property
    def held_out(self) -> Dataset:
        """The images that nobody is trained on."""
        whole, held = self._split
        assert held is not None
        return whole.take(held)

    @cached_property
    def taught(self) -> Dataset:
        """The images that the final experts are trained on: all to train on but those held out for labels."""
        aside = self._labelled_aside
        return self.train if aside is None else self.train.take(rest_of(len(self.train), aside))

    def without_fold(self, fold: int) -> Dataset:
        """The images that a fold's experts are trained on."""
        return self.train.take(rest_of(len(self.train), self._folds[fold]))

    def parts(self, labels: Path) -> list[LabelPart]:
        """What is labelled into a folder."""
        if self.config.labels.folds > 1:
            return [LabelPart(labels / f"fold-{fold}", part, fold) for fold, part in enumerate(self._folds)]
        return [LabelPart(labels, self._labelled_aside)]

    def of(self, part: LabelPart) -> Dataset:
        """The images of a part."""
        return self.train if part.indices is None else self.train.take(part.indices)

    @cached_property
    def _split(self) -> tuple[Dataset, Ints | None]:
        """The training split, and which of its images are held out."""
        config = self.config.data
        whole = self._load(config.train)
        if not config.held_out:
            return whole, None
        with inside("data.held_out"):
            return whole, set_aside(len(whole), config.held_out, 0)[0]

    @cached_property
    def _labelled_aside(self) -> Ints | None:
        labels = self.config.labels
        if not labels.held_out:
            return None
        with inside("labels.held_out"):
            return set_aside(len(self.train), labels.held_out, labels.sample_seed + HELD_OUT)[0]

    @cached_property
    def _folds(self) -> list[Ints]:
        labels = self.config.labels
        with inside("labels.folds"):
            return [np.asarray(fold) for fold in folds_of(len(self.train), labels.folds, labels.sample_seed)]

    def _load(self, split: str) -> Dataset:
        return data.load(self.config.data.source, split, size=self.config.data.image_size)
