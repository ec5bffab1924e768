"""Several processes that train one network, by torch's DistributedDataParallel under `torchrun`.

# K processes, counted by rank; a batch of n images, of which the process of rank k holds n_k

The result is that of one process with the same settings, up to rounding: every process samples the same order,
augmentation and noise as one alone would and keeps those of its images (see `noisy`); gradients are averaged with the
weights n_k / n. Only the process of rank 0 touches files and shows progress. What fails in one fails in all.
"""

import atexit
import gc
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from sigmax.errors import RequestError, RunError
from sigmax.train.loop.noisy import Share

T = TypeVar("T")
PATIENCE = timedelta(minutes=30)  # how long processes wait for one that validates or writes
CPU = torch.device("cpu")
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


@dataclass(frozen=True)
class Team:
    """The processes of a run, as one of them sees it. A process alone is a team of one, and nothing is sent."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process is the one that writes and speaks."""
        return self.rank == 0

    def share(self, images: int) -> Share:
        """Which images of a batch are this process's: equal shares, give or take one image; none is empty."""
        if images < self.size:
            raise RequestError(
                f"{self.size} processes cannot share a batch of {images} images; start fewer or enlarge the batch"
            )
        first, last = (k * images // self.size for k in (self.rank, self.rank + 1))
        return Share(first, last, images)

    def weighed(self, loss: Tensor, share: Share) -> Tensor:
        """A mean loss over the share, weighed so that the plain mean over processes is that over all images."""
        weight = self.size * (share.last - share.first) / share.whole
        return loss if weight == 1 else loss * weight

    def part_ways(self) -> None:
        """Let torch's global generator differ from here on, for layers that sample from it, such as dropout."""
        if not self.leads:
            torch.manual_seed(torch.initial_seed() + self.rank)

    def wrapped(self, model: nn.Module, device: torch.device) -> nn.Module:
        """The model whose backward pass ends with the gradients of the whole batch in every process."""
        if self.size == 1:
            return model
        model = _synchronised(model, device)
        devices = [device] if device.type == "cuda" else None
        options: Any = {"broadcast_buffers": False, "gradient_as_bucket_view": True}
        with warnings.catch_warnings():  # the new name of broadcast_buffers is not known to all supported torches
            warnings.simplefilter("ignore", FutureWarning)
            return DistributedDataParallel(model, device_ids=devices, **options)

    def sum(self, values: Tensor) -> Tensor:
        """The values, summed over the processes in place."""
        if self.size > 1:
            distributed.all_reduce(values)
        return values

    def from_first(self, work: Callable[[], T]) -> T:
        """What `work` returns in the first process, which alone does it; or its error, in every process."""
        sent: list[Any] = [self.at_first(work)]
        if self.size > 1:
            distributed.broadcast_object_list(sent, src=0, device=CPU)
        result: T = sent[0]
        return result

    def at_first(self, work: Callable[[], T]) -> T | None:
        """Let the first process do the work and have the result, the others none; if it fails, all fail."""
        return self.together(lambda: work() if self.leads else None)

    def together(self, work: Callable[[], T]) -> T:
        """What `work` returns here; an error in any process is an error in all."""
        if self.size == 1:
            return work()
        result, error = None, None
        try:
            result = work()
        except Exception as caught:  # whatever it is, the others must hear of it
            error = caught
        errors: list[Any] = [None] * self.size
        sent = error  # without what led to it, which may not travel
        if error is not None:
            ours = type(error) in (RequestError, RunError)
            sent = type(error)(str(error)) if ours else RunError(f"{type(error).__name__}: {error}")
        distributed.all_gather_object(errors, sent)
        for failed in (error, *errors):
            if failed is not None:
                raise failed
        return cast(T, result)

    def same(self, order: Tensor) -> Tensor:
        """The first process's order, in all of them: they must agree on it to the last index."""
        if self.size == 1:
            return order
        length = torch.tensor(len(order), device=order.device)
        distributed.broadcast(length, src=0)
        agreed = order.contiguous() if len(order) == int(length) else order.new_empty(int(length))
        distributed.broadcast(agreed, src=0)
        return agreed

    def merge(self, tensors: Sequence[Tensor], rows: Tensor) -> None:
        """Let every process have, of each tensor (N, ...), the rows that others changed; its own are `rows`."""
        for tensor in tensors if self.size > 1 else ():
            mine = torch.zeros(len(tensor), dtype=torch.float64, device=tensor.device)
            mine[rows.to(tensor.device)] = 1
            times = self.sum(mine.clone())
            # Exact where one process alone has seen the row; where several have, the mean of theirs.
            mine, times = (values.view(-1, *[1] * (tensor.ndim - 1)) for values in (mine, times))
            total = self.sum(torch.where(mine > 0, tensor.to(torch.float64), 0.0))
            tensor.copy_(torch.where(times > 0, total / times.clamp(min=1), tensor.to(torch.float64)))


ALONE = Team()


@contextmanager
def team(device: str) -> Iterator[Team]:
    """The team that `torchrun` has started this process in; a process started in any other way is alone.

    The processes stay together until they end: torch cannot meet again without mistaking traces of the last meeting.
    """
    if not launched():
        yield ALONE
        return
    if not distributed.is_initialized():
        on_gpus = device.startswith("cuda") and torch.cuda.is_available()
        distributed.init_process_group("cpu:gloo,cuda:nccl" if on_gpus else "gloo", timeout=PATIENCE)
        atexit.register(_part)
    try:
        yield Team(distributed.get_rank(), distributed.get_world_size())
    except (RequestError, RunError):
        raise  # every process has it
    except BaseException:
        atexit.unregister(_part)  # this one alone fails: waiting for the others, who wait for it, would not end
        raise


def _part() -> None:
    if distributed.is_initialized():
        gc.collect()  # a wrapped network in a cycle of references would keep the group's threads beyond its end
        distributed.barrier()  # one that left while another still listened has ended in an abort
        distributed.destroy_process_group()


def launched() -> bool:
    """Whether this process is one of several that torchrun, or a launcher like it, has started."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ and "MASTER_ADDR" in os.environ


def local_device(device: torch.device) -> torch.device:
    """Of a machine's GPUs the one of this process: each process of a team has its own."""
    if device.type != "cuda" or not launched():
        return device
    if str(device) != "cuda":
        raise RequestError(f'under torchrun each process takes a GPU of its own; use device "cuda", not "{device}"')
    mine = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(mine)
    return mine


def _synchronised(model: nn.Module, device: torch.device) -> nn.Module:
    """The model with batch normalisation over the images of all processes; its weights and their names stay."""
    if device.type == "cuda":
        converted: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(model)  # type: ignore[no-untyped-call]
        return converted
    if any(isinstance(layer, NORMS) for layer in model.modules()):
        raise RequestError(
            "a network with batch normalisation cannot be trained by several CPU processes: torch synchronises its "
            "statistics on GPUs only; start one process, use GPUs, or train a network without batch normalisation"
        )
    return model
