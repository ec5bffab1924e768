"""What each phase of a pipeline's folder was made for: `pipeline.json`, and what is redone when a key changes.

Every file refuses another request by itself, but only when its turn comes, hours later; the manifest says it at once.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sigmax import models
from sigmax.errors import RequestError
from sigmax.files import check_writable, lock, unlock, written_whole
from sigmax.pipeline.config import PipelineConfig
from sigmax.pipeline.phase import Phase
from sigmax.pipeline.tables import ExpertsConfig

NAME = "pipeline.json"
ELSEWHERE = {  # keys that decide where, how fast and which files are made, and no file's content
    "labels": {"device", "batch"},
    "certify": {"device", "batch", "rules", "experts", "start", "skip", "max"},
}
Request = dict[str, Any]


def whole_request(config: PipelineConfig, images: Mapping[str, str], systems: Sequence[str]) -> Request:
    """All that decides what the files hold; `images` (fingerprints) and `systems` are known by their content."""
    said: Request = config.model_dump(mode="json", exclude={"out", "device", "data"})
    said = {name: value for name, value in said.items() if value is not None}
    for table, names in ELSEWHERE.items():
        said[table] = {name: value for name, value in said[table].items() if name not in names}
    for name in ("experts", "router", "finetune"):
        said.get(name, {}).get("training", {}).pop("device", None)
    if config.experts.grid is None:
        del said["experts"]["grid"]  # as in folders from before there were grids
    starts = said["experts"].pop("start")
    if starts is not None:  # known by their content, wherever they are
        many = isinstance(starts, list)
        found = [models.fingerprint(start) if start else "" for start in (starts if many else [starts])]
        said["experts"]["start"] = found if many else found[0]
    if config.experts.epochs is not None:
        del said["experts"]["training"]["epochs"]
    said["data"] = {"held_out": config.data.held_out, **images}
    said["experts"]["systems"] = list(systems)
    for name, usual in (("noise", "gaussian"), ("scales", []), ("splitting", None)):
        if said["experts"].get(name) == usual:  # likewise, from before there was other noise; names say which it is
            said["experts"].pop(name, None)
    for name in ("sigma", "scale"):
        if "router" in said and said["router"].get(name) is None:
            said["router"].pop(name, None)
    places = range(len(config.experts.trained))  # systems have none
    said["expert"] = {config.experts.names[place]: _expert(config.experts, place) for place in places}
    said["steps"] = {str(number): step for number, step in enumerate(config.steps, 1)}
    plain: Request = json.loads(json.dumps(said))
    return plain


def _expert(experts: ExpertsConfig, place: int) -> Request:
    """What one expert has for itself."""
    (method, sigma, hyper), start = experts.method_of(place), experts.start_of(place)
    said = {"method": method, "sigma": sigma, "hyper": dict(hyper), "options": dict(experts.network_of(place).options)}
    if experts.epochs is not None:
        said["epochs"] = experts.training_of(place).epochs
    return said if start is None else {**said, "start": models.fingerprint(start)}


@contextmanager
def alone_in(out: Path) -> Iterator[None]:
    """Keep other processes from working in the folder: they would move each other's files."""
    check_writable(out / NAME)
    held = lock(
        out / NAME,
        held=f"another process runs a pipeline in {out}; wait for it, or choose another out (--set out=FOLDER)",
    )
    try:
        yield
    finally:
        unlock(held)


@dataclass
class Manifest:
    """The requests of the phases in `out`, by the first file of each; `folder`: where the files are, if set aside."""

    out: Path
    folder: Path
    requests: dict[str, Request] = field(default_factory=dict)

    @classmethod
    def read(cls, out: Path, folder: Path | None = None) -> "Manifest":
        """What a folder's manifest says; nothing where there is none."""
        folder = folder or out
        path = folder / NAME
        try:
            said = json.loads(path.read_text())
        except (FileNotFoundError, NotADirectoryError):
            return cls(out, folder)
        except OSError as error:
            raise RequestError(f"{path} cannot be read ({error.strerror}); choose another folder as out") from error
        except ValueError:
            said = None
        requests = said.get("phases") if isinstance(said, dict) else None
        if not isinstance(requests, dict) or not all(isinstance(request, dict) for request in requests.values()):
            raise RequestError(f"{path} is damaged; delete it: all other files say what they are for")
        return cls(out, folder, requests)

    def of(self, phase: Phase) -> Request | None:
        """What the phase's files were made for, where that is known."""
        return self.requests.get(self._key(phase))

    def remember(self, phase: Phase, request: Request) -> None:
        """Note what a phase's files are for; `write` keeps it."""
        self.requests[self._key(phase)] = request

    @contextmanager
    def begun(self, phase: Phase, request: Request) -> Iterator[None]:
        """Keep what a phase is for while it works; one that is refused leaves the manifest as it was."""
        path = self.folder / NAME
        before = path.read_bytes() if path.is_file() else None
        self.remember(phase, request)
        self.write()
        try:
            yield
        except RequestError:
            if before is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(before)
            raise

    def move(self, phases: Sequence[Phase], to: "Manifest") -> None:
        """Move the files of phases with their requests: at any moment every file is where a manifest lists it."""
        known = {self._key(phase): self.requests[self._key(phase)] for phase in phases}
        to.requests |= known
        to.write()
        for path in (path for phase in phases for path in phase.files_in(self.folder, self.out)):
            place = to.folder / path.relative_to(self.folder)
            place.parent.mkdir(parents=True, exist_ok=True)
            path.replace(place)
        self.requests = {key: request for key, request in self.requests.items() if key not in known}
        self.write()

    def write(self) -> None:
        """Keep it in its folder."""
        with written_whole(self.folder / NAME) as draft:
            draft.write_text(json.dumps({"phases": self.requests}, indent=1, sort_keys=True) + "\n")

    def _key(self, phase: Phase) -> str:
        return str(phase.leaves[0].relative_to(self.out))
