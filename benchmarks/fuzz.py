"""Damaged and hostile files against every reader: which of them break it, and how many were tried.

    python benchmarks/fuzz.py --seconds 600 --keep findings
    python benchmarks/fuzz.py journal npz --seconds 60 --seed 7 --first 1200

Each target runs in a process of its own, all at once. An input is made from the corpus (tests/fuzz/corpus), the seed
and its number alone. It is a finding if the reader raises anything but sigmax's own errors, asks to run something
(audit events of Python), needs more than MEMORY beyond what it had, takes longer than LIMIT seconds, or ends the
process. --keep writes the files of each finding; one finding is kept for each place in the code.
"""

import argparse
import json
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.mutations import mutated
from tests.fuzz.targets import TARGETS, put, seeds

MEMORY = 640 * 2**20  # beyond what the process holds: an image of 64 million pixels, decoded and converted
ADDRESSES = 4 * 2**30  # the same for what it may reserve: a safety net
LIMIT = 30  # seconds for one input, on a busy machine
FORBIDDEN = (
    "os.system", "os.exec", "os.spawn", "os.posix_spawn", "os.fork", "subprocess.Popen", "pickle.find_class",
    "socket.connect", "ctypes.dlopen", "webbrowser.open",
)  # fmt: skip


class HungError(BaseException):
    """An input took longer than LIMIT."""


@dataclass
class Outcome:
    """What a target did with its inputs."""

    target: str
    tried: int = 0
    refused: int = 0
    seconds: float = 0.0
    findings: dict[str, str] = field(default_factory=dict)  # what happened where, and the number of the first input


class Watch:
    """What an input makes the process do: forbidden events, and writing outside its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.on, self.seen = str(folder), False, list[str]()
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event in FORBIDDEN:
            self.seen.append(f"{event} {arguments!r:.120}")
        elif event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR):
            path = arguments[0]
            if isinstance(path, str) and not path.startswith((self.folder, "/dev/null", "/proc/self")):
                self.seen.append(f"writes {path}")


def peak() -> int:
    """The most memory held since the last call of `begin_peak`, in bytes."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def begin_peak() -> int:
    """Forget the peak so far; what is held now."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak()


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raise HungError in the block after so many seconds."""

    def ring(number: int, frame: object) -> None:
        raise HungError

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def attempt(target: str, folder: Path, watch: Watch) -> tuple[bool, str]:
    """Whether the reader refused the files in `folder`, and what it did that it must not; "" if nothing."""
    from sigmax.errors import RequestError, RunError

    refused, problem, held = False, "", begin_peak()
    watch.seen.clear()
    watch.on = True
    try:
        with limited(LIMIT):
            TARGETS[target](folder)
    except (RequestError, RunError):
        refused = True
    except BaseException as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "sigmax" in frame.filename]
        where = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "?"
        problem = f"{type(error).__name__} in {where}"
    finally:
        watch.on = False
    if watch.seen:
        problem = watch.seen[0]
    elif not problem and peak() - held > MEMORY:
        problem = "more memory than allowed"
    return refused, problem


def work(target: str, seed: int, first: int, *, until: float, place: Path, report: Any) -> None:
    """Try inputs until the time is over; the number of each is on disk before it is read."""
    warnings.simplefilter("ignore")
    corpus, folder = seeds(target), place / "input"
    watch, outcome = Watch(place), Outcome(target)
    for files in corpus:  # whole files are read, and libraries are loaded before memory is counted
        put(files, folder)
        TARGETS[target](folder)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + ADDRESSES, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    number, begun = first, time.monotonic()
    while time.time() < until:
        put(mutated(corpus, Random(f"{target} {seed} {number}")), folder)
        (place / "number").write_text(str(number))
        refused, problem = attempt(target, folder, watch)
        outcome.tried, outcome.refused = outcome.tried + 1, outcome.refused + refused
        if problem and problem not in outcome.findings:
            outcome.findings[problem] = str(number)
        number += 1
    outcome.seconds = time.monotonic() - begun
    report.put(outcome)


def drive(target: str, seed: int, first: int, seconds: float, results: Any) -> None:
    """Run a target to its time; where an input ends the process, note it and go on with the next one."""
    total, until = Outcome(target), time.time() + seconds
    context = multiprocessing.get_context("spawn")
    while time.time() < until:
        with tempfile.TemporaryDirectory() as place:
            report, begun = context.Queue(), time.monotonic()
            given = {"until": until, "place": Path(place), "report": report}
            child = context.Process(target=work, args=(target, seed, first), kwargs=given)
            child.start()
            child.join()
            if child.exitcode == 0:
                found = report.get(timeout=30)
            else:
                number = Path(place, "number")
                last = int(number.read_text()) if number.exists() else first
                ended = {f"ended the process ({child.exitcode})": str(last)}
                found = Outcome(target, last - first + 1, 0, time.monotonic() - begun, ended)
                first = last + 1
        total.tried, total.refused = total.tried + found.tried, total.refused + found.refused
        total.seconds += found.seconds
        total.findings = {**found.findings, **total.findings}
    results.put(total)


def main(words: list[str] | None = None) -> int:
    """Fuzz the targets and print what was found; 1 if anything was."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(TARGETS)} (default: all)")
    parser.add_argument("--seconds", type=float, default=600, help="of each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--keep", type=Path, help="folder for the files of the findings")
    parser.add_argument("--out", type=Path, help="JSON file for the outcome")
    given = parser.parse_args(words)
    context = multiprocessing.get_context("spawn")
    results, names = context.Queue(), given.targets or list(TARGETS)
    drivers = [context.Process(target=drive, args=(n, given.seed, given.first, given.seconds, results)) for n in names]
    for driver in drivers:
        driver.start()
    outcomes = sorted((results.get() for _ in drivers), key=lambda outcome: names.index(outcome.target))
    for one in outcomes:
        print(f"{one.target:14} {one.tried:8,} inputs, {one.refused:8,} refused, {one.seconds:6.0f} s")
        for problem, number in one.findings.items():
            print(f"    input {number}: {problem}")
            if given.keep:
                files = mutated(seeds(one.target), Random(f"{one.target} {given.seed} {number}"))
                put(files, given.keep / f"{one.target}-{number}")
    if given.out:
        given.out.write_text(json.dumps([vars(one) for one in outcomes], indent=1) + "\n")
    return 1 if any(one.findings for one in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
