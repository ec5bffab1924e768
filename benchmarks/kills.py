"""Kill every long verb at random moments, repeat the command, and compare with a run that nobody disturbed.

    python -m benchmarks.kills --kills 20 --seed 0               # so many kills a verb
    python -m benchmarks.kills certify label --kills 5 --seed 7

Each verb runs as a process of its own, forked from this one after all imports, so that kills hit its work and not the
loading of torch. A chain begins in an empty folder. It is killed (SIGKILL or SIGTERM, by lot) up to CHAIN times, each
at a moment drawn evenly from the time the undisturbed run took; then it runs to its end. The end must equal that of the
undisturbed run: every file byte for byte, but for seconds and speeds; every run file record for record, no input twice,
and it must verify. Nothing may be lost: a record that was in a run file at a kill is there at the next. A verb that
SIGTERM ends must say that the command is to be repeated. A chain that ends otherwise is printed with what differs, and
the exit code is 1.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # a forked process must not inherit threads

import torch
import torch._dynamo  # imported by the optimizers, late

import sigmax as sx
import sigmax.pipeline
import sigmax.report
import sigmax.train
from sigmax.cli.main import main as sigmax_main
from sigmax.records.lines import decode

CHAIN = 5  # kills before a chain is let run to its end
PATIENCE = 300.0  # seconds that any verb may take
PIPELINE = """
out = "work"
[data]
source = "digits"
[experts]
sigmas = [0.1, 0.4]
options.width = 4
training = {epochs = 3, batch = 32}
[labels]
n = 50
fraction = 0.1
[router]
sigma = 0.4
options.width = 4
training = {epochs = 3, batch = 32}
[certify]
n0 = 20
n = 500
skip = 20
"""
# Pages that tell the seconds in the records; the verb report, given runs that stay the same, is compared byte for byte.
SECONDS_TOLD = ("work/report/report.html", "work/report/report.md")
PREPARATION = [  # what the verbs need, made once
    "train classifier --data digits --sigma 0.1 --epochs 4 --out low.safetensors",
    "train classifier --data digits --sigma 0.4 --epochs 4 --out high.safetensors",
    "build smoothed low.safetensors --out low",
    "build smoothed high.safetensors --out high",
    "build cascade high.safetensors low --confidence 0.5 --out cascade",
    "certify low --data digits --n 200 --skip 4 --start 0 --out part-0.jsonl",
    "certify low --data digits --n 200 --skip 4 --start 2 --out part-1.jsonl",
]
VERBS = {  # each writes to the folder it runs in; PARTS is the folder of the preparation
    "train": "train classifier --data digits --sigma 0.4 --epochs 8 --out net.safetensors",
    "label": "label PARTS/low PARTS/high --data digits --n 200 --set fraction=0.1 --out labels",
    "calibrate": "calibrate PARTS/cascade --data digits --split test --max 60 --n 1000 --out calibrated",
    "certify": "certify PARTS/high --data digits --n 2000 --max 60 --out run.jsonl",
    "pipeline": "pipeline run pipe.toml",
    "merge": "merge PARTS/part-0.jsonl PARTS/part-1.jsonl --out merged.jsonl",
    "report": "report PARTS/part-0.jsonl PARTS/part-1.jsonl --out report",
}


@dataclass
class Tally:
    """What became of one verb."""

    verb: str
    seconds: float  # of the undisturbed run
    kills: dict[str, int] = field(default_factory=lambda: {"SIGKILL": 0, "SIGTERM": 0})
    at_work: int = 0  # kills that left files behind
    chains: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def killed(self) -> int:
        """How often it was killed."""
        return sum(self.kills.values())


class Process:
    """A verb in a forked process; what it says goes to a file beside its folder."""

    def __init__(self, words: str, folder: Path, before: Callable[[], object] = lambda: None) -> None:
        self.log = folder.with_name(f"{folder.name}.log")
        self.code: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            self._become(words, folder, before)

    def _become(self, words: str, folder: Path, before: Callable[[], object]) -> None:
        code = 70
        try:
            log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.chdir(folder)
            sys.argv = ["sigmax", *words.split()]
            before()
            sigmax_main()
        except SystemExit as end:
            code = 0 if end.code is None else int(end.code)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def wait(self, seconds: float = PATIENCE) -> int | None:
        """The exit code (negative: the signal); None where it goes on for longer than that."""
        until = time.monotonic() + seconds
        while self.code is None:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                self.code = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > until:
                return None
            else:
                time.sleep(0.001)
        return self.code

    def stop(self, how: signal.Signals) -> int:
        """The exit code after a signal."""
        os.kill(self.pid, how)
        code = self.wait()
        if code is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()
            raise AssertionError(f"{how.name} did not end the process in {PATIENCE:.0f} s")
        return code

    @property
    def said(self) -> str:
        """What it printed."""
        return self.log.read_text(errors="replace")


def finish(words: str, folder: Path) -> str:
    """Run a verb to its end, which must be a good one; what it said."""
    process = Process(words, folder)
    code = process.wait()
    if code != 0:
        raise AssertionError(f"sigmax {words}: expected exit code 0, got {code}\n{process.said}")
    return process.said


def prepare(folder: Path) -> Path:
    """The networks, systems and runs that the verbs are given."""
    folder.mkdir()
    for words in PREPARATION:
        finish(words, folder)
    return folder


def begin(folder: Path) -> Path:
    """An empty folder, but for the pipeline's file."""
    folder.mkdir()
    (folder / "pipe.toml").write_text(PIPELINE)
    return folder


def timeless(content: Any) -> Any:
    """Without what a clock gave."""
    if isinstance(content, dict):
        return {key: timeless(value) for key, value in content.items() if key not in ("seconds", "throughput")}
    return [timeless(value) for value in content] if isinstance(content, list) else content


def contents(folder: Path) -> dict[str, Any]:
    """Every file of a finished folder; drafts that a kill left behind are hidden files and do not count."""
    found: dict[str, Any] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")):
        name = str(path.relative_to(folder))
        if path.name.endswith("metrics.jsonl"):
            found[name] = [timeless(json.loads(line)) for line in path.read_text().splitlines()]
        elif path.suffix == ".jsonl":
            found[name] = _run(path)
        elif name in SECONDS_TOLD:
            found[name] = path.stat().st_size > 0
        else:
            found[name] = path.read_bytes()
    return found


def _run(path: Path) -> Any:
    """A run file, seen to hold and to have each input once."""
    run, verdict = sx.read(path), sx.verify(path)
    indices = [record.index for record in run.records]
    if not verdict.holds or len(set(indices)) != len(indices):
        raise AssertionError(f"{path} does not verify: {verdict.findings[:3]}; {len(indices)} records")
    return run.plan, [(r.index, r.label, r.certificate) for r in run.records], run.finished


def recorded(folder: Path) -> dict[tuple[str, int], bytes]:
    """The records in all run files as they are, torn last lines aside: what must never be lost."""
    found = {}
    for path in folder.rglob("*.jsonl"):
        if path.name.startswith(".") or path.name.endswith("metrics.jsonl"):
            continue
        for line in path.read_bytes().splitlines(keepends=True):
            record = decode(line.rstrip(b"\n")) if line.endswith(b"\n") else {}
            if record.get("kind") == "input":
                found[str(path.relative_to(folder)), record["index"]] = line
    return found


def chain(words: str, folder: Path, expected: dict[str, Any], tally: Tally, chance: Random, *, most: int) -> None:
    """Kill, repeat, and let it end; what is wrong goes into the tally."""
    verb = tally.verb
    begin(folder)
    kept: dict[tuple[str, int], bytes] = {}
    for _ in range(min(CHAIN, most)):
        process = Process(words, folder)
        how = chance.choice([signal.SIGKILL, signal.SIGTERM])
        if process.wait(chance.uniform(0, tally.seconds)) is not None:
            break
        code = process.stop(how)
        if code == 0:  # it ended before the signal came
            break
        tally.kills[how.name] += 1
        tally.at_work += len([path for path in folder.rglob("*") if path.is_file()]) > 1
        if code not in (-how, 130):
            tally.wrong.append(f"{verb}: {how.name} gave exit code {code}: {process.said[-800:]}")
        if code == 130 and not ("Interrupted." in process.said and "same command" in process.said):
            tally.wrong.append(f"{verb}: after {how.name} it does not say how to go on: {process.said[-800:]!r}")
        there = recorded(folder)
        if lost := [key for key, line in kept.items() if there.get(key) != line]:
            tally.wrong.append(f"{verb}: {len(lost)} records lost, such as {lost[0]}")
        kept = there
    tally.chains += 1
    try:
        finish(words, folder)
        if differing := _differing(expected, contents(folder)):
            tally.wrong.append(f"{verb}, {folder}: other than undisturbed: {', '.join(differing)}")
        there = recorded(folder)
        if any(there.get(key) != line for key, line in kept.items()):
            tally.wrong.append(f"{verb}, {folder}: a record was made again")
    except (AssertionError, ValueError, RuntimeError) as error:
        tally.wrong.append(f"{verb}, {folder}: {error}")


def _differing(expected: dict[str, Any], found: dict[str, Any]) -> list[str]:
    return [name for name in sorted(expected.keys() | found.keys()) if expected.get(name) != found.get(name)]


def disturb(verb: str, kills: int, seed: int, folder: Path, parts: Path) -> Tally:
    """Chains of one verb until it was killed so often."""
    words, chance = VERBS[verb].replace("PARTS", str(parts)), Random(f"{verb} {seed}")
    whole = begin(folder / f"{verb}-whole")
    begun = time.monotonic()
    finish(words, whole)
    tally = Tally(verb, time.monotonic() - begun)
    expected = contents(whole)
    while tally.killed < kills and not tally.wrong and tally.chains < 4 * kills:
        left = kills - tally.killed
        chain(words, folder / f"{verb}-{tally.chains}", expected, tally, chance, most=left)
    return tally


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each verb."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("verbs", nargs="*", metavar="VERB", help=f"of {', '.join(VERBS)} (default: all)")
    cli.add_argument("--kills", type=int, default=20, help="of each verb")
    cli.add_argument("--seed", type=int, default=0)
    asked = cli.parse_args(arguments)
    if unknown := set(asked.verbs) - set(VERBS):
        cli.error(f"expected verbs of {', '.join(VERBS)}; got {', '.join(sorted(unknown))}")
    torch.set_num_threads(1)
    tallies = []
    with tempfile.TemporaryDirectory() as place:
        parts = prepare(Path(place) / "parts")
        print("| verb | undisturbed | SIGKILL | SIGTERM | with files there | chains | wrong |")
        print("|---|---|---|---|---|---|---|")
        for verb in asked.verbs or VERBS:
            tallies.append(found := disturb(verb, asked.kills, asked.seed, Path(place), parts))
            counts = f"{found.kills['SIGKILL']} | {found.kills['SIGTERM']} | {found.at_work} | {found.chains}"
            print(f"| {verb} | {found.seconds:.1f} s | {counts} | {len(found.wrong)} |", flush=True)
    wrong = [line for tally in tallies for line in tally.wrong]
    print(f"{sum(tally.killed for tally in tallies)} kills, seed {asked.seed}: {len(wrong)} wrong", *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
