"""Workers that are actors of a Ray cluster, which places them, restarts them and moves what they are sent.

The job is put into Ray's object store once and read from there by every actor; a node fetches it once.

Whoever reaches the ports of a Ray cluster can run code on it. So no cluster is joined that was not named, and one that
is started here has token authentication on, as Ray does from the version on that is required.
"""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from sigmax.errors import RequestError, RunError, needs
from sigmax.jobs.backends.pull import Done, Event, Failed, Lost, Pool, Ready, Results
from sigmax.jobs.backends.work import Group, Job, Portion, packed, portions, unpacked
from sigmax.version import __version__

if TYPE_CHECKING:
    from numpy.typing import NDArray

OWN = "local"  # Ray's word for a cluster that it starts for this process


class Answerer:
    """The actor. Ray runs it in a process of its own, on any node with room for it."""

    def __init__(self, content: "NDArray[np.uint8]") -> None:
        self._job = unpacked(content.tobytes())

    def place(self) -> tuple[str, str]:
        """Where this runs and how to find its log; and the version of sigmax there."""
        import ray

        actor, node = ray.get_runtime_context().get_actor_id(), ray.util.get_node_ip_address()
        return f"actor {actor} on {node}, process {os.getpid()}; its log: ray logs actor --id {actor}", __version__

    def answer(self, group: Group) -> Iterator[Portion]:
        """The group's results in portions."""
        yield from portions(self._job.results(group))


class Actors(Pool):
    """`size` actors of one CPU each, or of a GPU or a share of one; those that Ray cannot place yet are waited for.

    address: of a running cluster ("auto": the one that was started last on this machine); None: what RAY_ADDRESS
    names, else one that is started here for the time of the run.
    """

    def __init__(self, job: Job, size: int | None, *, gpus_per_worker: float = 0.0, address: str | None = None) -> None:
        self._ray = ray = imported()
        content = packed(job, pickler=ray.cloudpickle)
        self._ours = connected(address)
        self.size = size or room(gpus_per_worker)
        self._pending: dict[Any, int] = {}  # what is waited for, and of which worker
        self._streams: dict[int, Any] = {}  # the stream of results of a worker's group
        self._content = ray.put(np.frombuffer(content, dtype=np.uint8))
        kind = ray.remote(num_cpus=1, num_gpus=gpus_per_worker, max_restarts=-1)(Answerer)
        self._actors = [kind.remote(self._content) for _ in range(self.size)]
        for worker in range(self.size):
            self._await_ready(worker)

    def send(self, worker: int, group: Group) -> None:
        """As a call that streams its results."""
        stream = self._actors[worker].answer.options(num_returns="streaming").remote(group)
        self._streams[worker] = stream
        self._pending[stream] = worker

    def events(self, seconds: float) -> list[Event]:
        """What the actors have sent."""
        waiting = list(self._pending)
        ready, _ = self._ray.wait(waiting, num_returns=1, timeout=seconds)
        if ready and len(waiting) > 1:  # all that came, since each look at many costs
            ready, _ = self._ray.wait(waiting, num_returns=len(waiting), timeout=0)
        return [event for one in ready if (event := self._event(self._pending[one], one)) is not None]

    def close(self) -> None:
        """End the actors; the cluster stays, unless it was started for this run."""
        for actor in self._actors:
            self._ray.kill(actor, no_restart=True)
        self._pending, self._streams, self._actors = {}, {}, []
        del self._content
        if self._ours:
            self._ray.shutdown()

    def _await_ready(self, worker: int) -> None:
        self._pending[self._actors[worker].place.remote()] = worker

    def _event(self, worker: int, one: Any) -> Event | None:
        errors = self._ray.exceptions
        streaming = self._streams.get(worker) is one
        try:
            found = self._ray.get(next(one) if streaming else one)
        except StopIteration:
            self._forget(worker, one)
            return Done(worker)
        except errors.RayTaskError as error:  # the actor lives; its own code, or the model's, has raised
            self._forget(worker, one)
            cause = error.cause if error.cause is not None else error
            return Failed(worker, f"{type(cause).__name__}: {cause}", str(error))
        except errors.RayActorError as error:
            self._forget(worker, one)
            _refuse_failed_start(error)
            self._await_ready(worker)
            return Lost(worker, f"worker {worker}: {' '.join(str(error).split())}")
        except errors.RayError as error:  # what it sent went with its node
            self._forget(worker, one)
            self._await_ready(worker)
            return Lost(worker, f"worker {worker}: {' '.join(str(error).split())}")
        if streaming:
            return Results(worker, *found)
        self._forget(worker, one)
        return _ready(worker, *found)

    def _forget(self, worker: int, one: Any) -> None:
        self._pending.pop(one)
        self._streams.pop(worker, None)


def _ready(worker: int, place: str, version: str) -> Ready:
    if version != __version__:
        raise RunError(
            f"worker {worker} ({place}) has sigmax {version}, and this process {__version__}; install one on all nodes"
        )
    return Ready(worker, f"worker {worker}, {place}")


def _refuse_failed_start(error: Exception) -> None:
    """An actor that cannot take the job never will; one that is unreachable for now is restarted by Ray."""
    if "creation task" in str(error):
        raise RunError(f"workers cannot start: {error}") from error


def imported() -> Any:
    """The package ray."""
    return needs("ray", extra="ray", why="to run on Ray")


def connected(address: str | None) -> bool:
    """Join the cluster, or start one; whether it must be left again when the work is done."""
    ray, there = imported(), address or os.environ.get("RAY_ADDRESS") or OWN
    if ray.is_initialized():
        return False
    try:
        ray.init(address=there, log_to_driver=False, logging_level="warning")
    except Exception as error:
        what = "start a Ray cluster on this machine" if there == OWN else f"join the Ray cluster at {there}"
        raise RequestError(
            f"cannot {what} ({type(error).__name__}: {error}); start one with: ray start --head. A cluster with token "
            "authentication needs RAY_AUTH_MODE=token and its token here too: RAY_AUTH_TOKEN or ~/.ray/auth_token"
        ) from error
    return True


def room(gpus_per_worker: float) -> int:
    """How many workers the cluster has room for now."""
    import ray

    there = ray.cluster_resources()
    each, kind = (gpus_per_worker, "GPU") if gpus_per_worker else (1, "CPU")
    count = int(there.get(kind, 0) / each + 1e-9)
    if not count:
        raise RequestError(
            f"the Ray cluster has {there.get(kind, 0):g} {kind}s, too few for a worker; add nodes, or say how many "
            "workers to wait for: --workers N"
        )
    return count
