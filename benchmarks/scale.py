"""What the driver of many workers sustains, and how many GPUs that feeds: a cost model, checked by simulated workers.

    OMP_NUM_THREADS=1 python benchmarks/scale.py --votes-per-s 170000
    OMP_NUM_THREADS=1 python benchmarks/scale.py --votes-per-s 170000 --profile    # where the driver's time goes

Everything but the votes is real: the driver, the pipes of worker processes, pickled groups with their images, the
journal with its checksums. The workers are simulated: one process holds their ends of all pipes, and answers groups
with ready certificates, of the system's own making. Flat out, they answer at once, which shows what the driver
sustains. Paced, each answers as one GPU would, in portions of a second, which adds what waking up for each message
costs. The model is the sum of the two. The driver's cost is its processor time, so that other work on the machine
does not count.
"""

import argparse
import cProfile
import heapq
import json
import os
import pickle
import pstats
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np

import sigmax as sx
from sigmax.jobs.backends.local import JournalTarget
from sigmax.jobs.backends.processes import Processes, _Worker
from sigmax.jobs.backends.pull import Done, Driver, Ready, Results
from sigmax.jobs.backends.work import PORTION_SECONDS, Certifying, Group
from sigmax.jobs.certify import plan_run
from sigmax.records.journal import Journal
from sigmax.records.lines import Record
from sigmax.records.run import planned_inputs
from sigmax.rules.certificate import Certificate
from sigmax.rules.sampling import Sampling

GPUS = (8, 64, 200, 1_000)
CERTIFIED = 32  # inputs that are really certified, for certificates to answer with


def answering(connections: Sequence[Connection], certificates: Sequence[Certificate], seconds: float) -> None:
    """The simulated workers' lives; each input takes so many seconds, and results come in portions as usual."""
    due: list[tuple[float, int, int, Group]] = []  # when, who, from which input of the group on
    portion = int(PORTION_SECONDS / seconds) + 1 if seconds else 10**9
    for connection in connections:
        connection.send(None)
    while True:
        patience = max(0.0, due[0][0] - time.monotonic()) if due else None
        for connection in connections_with_messages(connections, patience):
            number = connections.index(connection)
            try:
                group = _group(connection.recv_bytes())
            except (EOFError, ConnectionResetError):
                return  # the driver has ended
            if group is None:
                connection.send(Ready(number, ""))
            else:
                later = time.monotonic() + seconds * min(portion, len(group.indices))
                heapq.heappush(due, (later, number, 0, group))
        while due and due[0][0] <= time.monotonic():
            now, number, first, group = heapq.heappop(due)
            sent = _records(group, certificates)[first : first + portion]
            connections[number].send(Results(number, sent, seconds * len(sent)))
            first, left = first + portion, len(group.indices) - first - portion
            if left > 0:
                heapq.heappush(due, (now + seconds * min(portion, left), number, first, group))
            else:
                connections[number].send(Done(number))


def connections_with_messages(connections: Sequence[Connection], seconds: float | None) -> list[Connection]:
    """Those that hold a message; waits so long for one at most."""
    ready = wait(list(connections), seconds)
    return [connection for connection in connections if connection in ready]


def _group(message: bytes) -> Group | None:
    """The group of a message; None of the job, which comes first."""
    if message.startswith(b"PK"):  # torch saves a job as a zip file
        return None
    group = pickle.loads(message)
    assert isinstance(group, Group)
    return group


def _records(group: Group, certificates: Sequence[Certificate]) -> list[Record]:
    every = zip(group.indices, group.labels, strict=True)
    return [Record(index, label, certificates[index % len(certificates)], 0.01) for index, label in every]


class Simulated(Processes):
    """Worker processes whose other ends are held by one process."""

    def __init__(self, job: Certifying, size: int, certificates: Sequence[Certificate], seconds: float) -> None:
        context = get_context("spawn")
        pipes = [context.Pipe() for _ in range(size)]
        self._ours = [ours for ours, _ in pipes]
        theirs = [theirs for _, theirs in pipes]
        self._process = context.Process(target=answering, args=(theirs, certificates, seconds), daemon=True)
        self._process.start()
        for connection in theirs:
            connection.close()
        super().__init__(job, size)

    def _started(self, number: int) -> _Worker:
        return _Worker(_Shared(self._process), self._ours[number])  # type: ignore[arg-type]  # it behaves as one


class _Shared:
    """The one process as that of each worker: with a sentinel of its own, since none can be waited for twice."""

    def __init__(self, process: BaseProcess) -> None:
        self._process, self.sentinel = process, os.dup(process.sentinel)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._process, name)


class Clock:
    """Watches a run: the driver's seconds, by the clock and of its processor, since just before the first results."""

    begun = ended = (0.0, 0.0)

    def __call__(self, done: int, total: int) -> None:
        """So many inputs are done."""
        self.ended = time.perf_counter(), time.process_time()
        if done == 0:
            self.begun = self.ended

    @property
    def seconds(self) -> tuple[float, float]:
        """By the clock, and of the processor."""
        return self.ended[0] - self.begun[0], self.ended[1] - self.begun[1]


def drive(job: Certifying, data: sx.data.Dataset, found: Sequence[Certificate], workers: int, pace: float) -> Any:
    """One run with simulated workers: what the driver did in a second and what a record cost it."""
    clock, total = Clock(), len(job.plan.indices)
    with tempfile.TemporaryDirectory() as folder:
        with Journal(Path(folder) / "run.jsonl", job.plan) as journal:
            with Simulated(job, workers, found, pace) as pool:
                Driver(JournalTarget(journal, job.scheme, data), pool, clock).run()
            journal.finish()
        size = journal.path.stat().st_size
        if planned_inputs(journal.path) != total:  # reads every line with its checksum
            raise AssertionError(f"the run file does not hold {total} records")
    seconds, process = clock.seconds
    return {
        "workers": workers,
        "records": total,
        "records_per_s": total / seconds,
        "us_per_record": 1e6 * process / total,
        "load": process / seconds,
        "file_bytes": size / total,
    }


def question(asked: argparse.Namespace, inputs: int) -> tuple[Certifying, sx.data.Dataset, list[Certificate]]:
    """The job of a run of so many images of the given size, and certificates to answer with."""
    scheme, few = sx.load(asked.system), sx.data.load(asked.data)
    which: dict[str, Any] = {
        "n0": asked.n0,
        "n": asked.n,
        "alpha": 1e-3,
        "seed": 0,
        "sampling": Sampling(asked.sampling),
    }
    plan = plan_run(scheme, few, start=0, skip=1, maximum=1, **which)
    found = scheme.certify(few.pixels(range(CERTIFIED)), **which)
    for voter in scheme.voters.values():
        voter.batch = asked.batch  # it sets the size of a group
    one = np.random.default_rng(0).random((1, *asked.image), dtype=np.float32)
    pixels = np.broadcast_to(one, (inputs, *asked.image))  # all the same one, which takes no memory
    data = sx.data.Dataset("scale", "test", pixels, np.zeros(inputs, np.int64), few.classes)
    plan = replace(plan, inputs={"start": 0, "skip": 1, "count": inputs})
    return Certifying(scheme, plan), data, found


def main(arguments: list[str] | None = None) -> None:
    """Print what was measured, the check of the model, and the model."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--votes-per-s", type=float, required=True, help="of one GPU, by `sigmax bench`")
    cli.add_argument("--system", default="zoo:digits-cascade", help="whose certificates workers answer with")
    cli.add_argument("--data", default="digits", help="images for the system")
    cli.add_argument("--image", type=int, nargs=3, default=[3, 32, 32], help="shape of the images that travel")
    cli.add_argument("--n0", type=int, default=100)
    cli.add_argument("--n", type=int, default=10_000)
    cli.add_argument("--sampling", choices=["fixed", "adaptive"], default="fixed")
    cli.add_argument("--batch", type=int, default=4_096, help="of the networks on their GPU; it sets the groups")
    cli.add_argument("--workers", type=int, default=200, help="simulated ones")
    cli.add_argument("--inputs", type=int, default=200_000, help="of the run flat out")
    cli.add_argument("--seconds", type=float, default=20.0, help="of the paced run")
    cli.add_argument("--profile", action="store_true", help="print where the time of the run flat out goes")
    cli.add_argument("--out", type=Path, help="also write the figures as JSON")
    asked = cli.parse_args(arguments)
    job, data, found = question(asked, asked.inputs)
    profiler = cProfile.Profile()
    if asked.profile:
        profiler.enable()
    flat = drive(job, data, found, asked.workers, 0.0)
    if asked.profile:
        profiler.disable()
        pstats.Stats(profiler).sort_stats("tottime").print_stats(25)
    samples = float(np.mean([certificate.samples for certificate in found]))
    pace = samples / asked.votes_per_s
    size = job.scheme.group(asked.n0, Sampling(asked.sampling))
    rounds = max(1, round(asked.seconds / pace / size))  # whole groups, so that all workers end together
    count = rounds * size * asked.workers
    paced = drive(*question(asked, count), asked.workers, pace)
    alone = paced["records_per_s"] * flat["us_per_record"] / 1e6
    # A look at the pipes lists them all, and each GPU sends about one message a second: so it grows with the square at
    # most. A busy driver finds several messages at a look, so it is less; --workers 1000 simulates that.
    waking = max(0.0, paced["load"] - alone) / asked.workers**2
    rows = [row(gpus, flat, waking, pace, asked) for gpus in GPUS]
    told = {"votes_per_s": asked.votes_per_s, "system": asked.system, "n0": asked.n0, "n": asked.n}
    figures = {**told, "samples": samples, "flat_out": flat, "paced": paced, "records_alone": alone}
    show(figures, rows)
    if asked.out:
        asked.out.write_text(json.dumps({**figures, "model": rows}, indent=1) + "\n")


def row(gpus: int, flat: Any, waking: float, pace: float, asked: argparse.Namespace) -> dict[str, float]:
    """What so many GPUs ask of the driver: the records' own cost, and that of waking up for each GPU's messages."""
    rate = gpus / pace
    return {
        "gpus": gpus,
        "records_per_s": rate,
        "load": rate * flat["us_per_record"] / 1e6 + waking * gpus**2,
        "images_mb_per_s": rate * 4 * int(np.prod(asked.image)) / 1e6,
        "file_mb_per_s": rate * flat["file_bytes"] / 1e6,
    }


def show(figures: Any, rows: Any) -> None:
    """The figures as text; the table is that of the docs."""
    flat, paced = figures["flat_out"], figures["paced"]
    print(f"{figures['samples']:,.0f} samples an input, {flat['file_bytes']:,.0f} bytes a record in the file")
    print(
        f"flat out, {flat['workers']} workers: {flat['records_per_s']:,.0f} records/s by the clock; "
        f"{flat['us_per_record']:.0f} us of the driver's processor a record"
    )
    print(
        f"paced, {paced['workers']} workers: {paced['records_per_s']:,.0f} records/s, the driver busy for "
        f"{paced['load']:.1%} of the time; records alone would take {figures['records_alone']:.1%}"
    )
    print("| GPUs | records/s | driver busy, at most | images out, MB/s | run file, MB/s |\n|---|---|---|---|---|")
    for one in rows:
        print(
            f"| {one['gpus']:,} | {one['records_per_s']:,.0f} | {one['load']:.0%} | {one['images_mb_per_s']:,.1f} | "
            f"{one['file_mb_per_s']:,.2f} |"
        )


if __name__ == "__main__":
    main()
