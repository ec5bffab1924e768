"""What a changed key means for the files of a pipeline: which phases are redone, which are reused, and why.

Files of another request are moved to `previous/1`, `previous/2` ..., and taken back when that is asked for again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sigmax.errors import RequestError
from sigmax.pipeline.manifest import Manifest, Request
from sigmax.pipeline.phase import Phase
from sigmax.request import differences, differing

FOLDER = "previous"
EARLY = {"data", "experts", "expert", "store", "labels"}  # tables that training and labels of many images depend on
HINTS = {"data.train_images": "other images to train on", "data.test_images": "other images to certify"}
SHOWN = 6  # phases named at once


@dataclass(frozen=True)
class Redo:
    """What becomes of the files in a folder that were made for another request than this one."""

    manifest: Manifest
    moved: tuple[Phase, ...]  # whose files are of another request
    returned: tuple[tuple[Phase, Manifest], ...]  # whose files of this request are in `previous`
    reused: tuple[Phase, ...]  # whose files can stay
    keys: tuple[str, ...]  # that differ for the phases that are redone
    reasons: tuple[str, ...]  # what differs, in words

    def __bool__(self) -> bool:
        return bool(self.moved or self.returned)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases that are redone."""
        back = [phase for phase, _ in self.returned]
        return tuple(phase for phase in self.moved if phase not in back)

    @property
    def folder(self) -> Path:
        """Where files of another request are moved: the first number that is free."""
        return self.manifest.out / FOLDER / str(max(_numbers(self.manifest.out), default=0) + 1)

    @property
    def takes_long(self) -> bool:
        """Whether a key changed that experts or labels depend on, and they are redone."""
        return any(key.partition(".")[0] in EARLY for key in self.keys)

    def lines(self) -> Iterator[str]:
        """What changed, what is redone, what is taken back and what is reused."""
        if self.moved:
            yield f"Changed: {'; '.join(self.reasons)}. What was made for that goes to {self.folder}."
        if self.phases:
            yield f"Redone: {_listed(self.phases)}."
        if self.returned:
            yield f"Taken back from {self.manifest.out / FOLDER}: {_listed([phase for phase, _ in self.returned])}."
        yield f"Reused: {_listed(self.reused) or 'nothing'}."

    def check(self, *, redo: bool) -> None:
        """Raise where experts or labels would be redone and nobody has asked for that."""
        if self.takes_long and not redo:
            stays = f"; what {_listed(self.reused)} left stays" if self.reused else ""
            raise RequestError(
                f"{self.manifest.out} holds another pipeline: {'; '.join(self.reasons)}. That changes "
                f"{_listed(self.phases)}{stays}. Training and labels take long, so give --redo to do them again (the "
                f"files they left are moved to {self.folder}), or choose another out (--set out=FOLDER)"
            )

    def move(self) -> None:
        """Move files of another request away, and files of this one back."""
        if self.moved:
            self.manifest.move(self.moved, Manifest(self.manifest.out, self.folder))
        for phase, kept in self.returned:
            kept.move([phase], self.manifest)


def redone(manifest: Manifest, phases: Sequence[Phase], whole: Request) -> Redo:
    """What to do about files of another request; of files of which nothing is known, nothing."""
    moved, returned, reused = list[Phase](), list[tuple[Phase, Manifest]](), list[Phase]()
    keys, reasons = set[str](), dict[str, str]()
    kept = [Manifest.read(manifest.out, manifest.out / FOLDER / str(n)) for n in sorted(_numbers(manifest.out))]
    for phase in phases:
        there, here = manifest.of(phase), phase.request(whole)
        found = differing(there, here) if there is not None and phase.files else []
        if phase.files and not found:
            reused += [phase] if phase.traces else []
            continue
        source = next((each for each in reversed(kept) if _holds(each, phase, here)), None)
        if source is not None:
            returned.append((phase, source))
        if there is not None and found:
            moved.append(phase)
            reasons |= dict(zip(found, differences(there, here, hints=HINTS), strict=True))
            keys |= set(found) if source is None else set()
    if any(not key.startswith("expert.") for key in reasons):  # `experts.` says the same, in the words of the file
        reasons = {key: text for key, text in reasons.items() if not key.startswith("expert.")}
    return Redo(manifest, tuple(moved), tuple(returned), tuple(reused), tuple(sorted(keys)), tuple(reasons.values()))


def _holds(kept: Manifest, phase: Phase, request: Request) -> bool:
    """Whether files that were set aside are those of this request."""
    there = kept.of(phase)
    return there is not None and not differing(there, request) and bool(phase.files_in(kept.folder, kept.out))


def _numbers(out: Path) -> list[int]:
    return [int(path.name) for path in (out / FOLDER).glob("*") if path.name.isdecimal()]


def _listed(phases: Sequence[Phase]) -> str:
    more = f" and {len(phases) - SHOWN} more" if len(phases) > SHOWN else ""
    return ", ".join(phase.name for phase in phases[:SHOWN]) + more
