"""A network as a voter: a batch of noisy inputs in, one class id each out."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from sigmax.errors import RequestError, RunError
from sigmax.noise import ways
from sigmax.noise.draws import BLOCK, block
from sigmax.noise.precision import whole_products

Model = Callable[..., Tensor]
LARGEST_LEARNED = 31 << 20  # bytes; glibc ignores blocks of 32 MiB and more
MASKED = -50.0  # a class this far behind the leading one is out of the vote
TRIAL = 4  # inputs of a trial batch whose neighbours are exchanged
CPU_BATCH, GPU_BATCH = 1024, 4096  # inputs a forward pass, at most, unless told
TRIED_BATCHES = (1024, 2048, 4096)  # where a GPU's best one is to be found
CACHED_NUMBERS = 1 << 17  # input numbers of a batch that suits a CPU's cache, as measured on small networks


class Voter:
    """A model with the device, precision and batch size it votes with.

    `model`: any callable from a batch to logits (batch, classes) or to class ids (batch,). One that declares
    `takes_sigma = True` is called as `model(batch, sigma)`. A torch module is put in eval mode: in training mode
    its votes would depend on the batch they stand in, and no certificate would hold.
    `votes=False`: the model is asked for `scores` instead, so class ids will not do.
    `compile`: False ("off"), True ("default"), "graphs" (CUDA graphs), "tuned" (kernels tried at length),
    "denoiser" (of a `Denoised`, that part alone) or "auto", which tries these and batch sizes when the first inputs
    come, and remembers on this machine what won.
    """

    def __init__(
        self,
        model: Model,
        *,
        classes: int,
        device: str | torch.device | None = None,
        dtype: torch.dtype | None = None,
        batch: int | None = None,
        compile: bool | str = False,  # noqa: A002 (the name users know from torch)
        votes: bool = True,
        parts: tuple[int, ...] | None = None,
    ) -> None:
        if not callable(model):
            raise RequestError(f"model must be callable (batch -> logits or class ids); got {type(model).__name__}")
        self.model = model
        self.classes = classes
        self.device = _device(model, device)
        self.dtype = _dtype(dtype)
        self.batch = _batch(batch, self.device)
        self._batch_was_given = batch is not None
        self.takes_sigma = bool(getattr(model, "takes_sigma", False))
        self.layout = torch.contiguous_format
        if isinstance(model, nn.Module):
            model.to(self.device)
            if votes and any(isinstance(part, nn.Conv2d) for part in model.modules()):
                self.lay_out(torch.channels_last)
        self.compile = ways.mode_of(compile)
        self.mode = "off" if self.compile == ways.AUTO else self.compile
        self._forward: Model = ways.compiled(model, self.mode)
        self._tried_for: torch.Size | None = None  # the shape of inputs that "auto" has decided for
        self.votes = votes
        self.parts = parts or (classes,)  # the model's logits are those of several networks side by side
        self.joined: dict[tuple[int, ...], Voter] = {}  # with others, where they share work: see `sharing`

    @property
    def compiled(self) -> bool:
        """Whether the network runs compiled, and so in batches of one size."""
        return self.mode != "off"

    def ready(self) -> None:
        """Eval mode, also for a module that was trained on since the voter was made."""
        if isinstance(self.model, nn.Module):
            self.model.eval()
        if self.device.type == "cpu":
            keep_freed_memory()

    def lay_out(self, layout: torch.memory_format) -> None:
        """How weights and images lie in memory: with channels of a pixel side by side convolutions are faster."""
        assert isinstance(self.model, nn.Module)
        self.layout = layout
        self.model.to(memory_format=layout)  # type: ignore[call-overload]  # an option torch has

    def _settle_layout(self, batch: Tensor, sigma: float) -> None:
        """Go back to the usual layout where a model insists on it, as one with .view() between layers does."""
        if self.layout is torch.channels_last:
            try:
                self._call(self.model, self._laid_out(batch.to(self.device)), sigma)
            except Exception:  # whatever it is, the trial that follows says it
                self.lay_out(torch.contiguous_format)

    def check(self, x: Tensor, sigma: float) -> None:
        """Cast a few votes to find out, before any long work, whether model and inputs fit together."""
        self.ready()
        if not self._batch_was_given and self.device.type == "cpu":
            self.batch = cpu_batch(x[0].numel())
        noisy = x[0] + sigma * block(seed=0, input_id=0, stage="trial", index=0, shape=x.shape[1:])[: 2 * TRIAL]
        self._settle_layout(noisy, sigma)
        same, near = noisy[:TRIAL], noisy[TRIAL:]
        far = -3 * near
        # The same inputs in the middle, among other neighbours before and behind, and in another order.
        half = TRIAL // 2
        first = self._trial(torch.cat([near[:half], same, near[half:]]), sigma)[half:-half]
        second = self._trial(torch.cat([far[:half], same.flip(0), far[half:]]), sigma)[half:-half].flip(0)
        if not _alike(first, second):
            raise RequestError(
                "the model's answer for an input changes with the other inputs of its batch, so no certificate "
                "would hold; use running statistics in its normalisation layers, call .eval() on a wrapped module, "
                "and take randomness out"
            )
        if self.compile == ways.AUTO and self._tried_for != x.shape[1:]:
            self._choose_way(noisy[:1], sigma)

    def _choose_way(self, one: Tensor, sigma: float) -> None:
        """Settle how to run the network on inputs like `one`: as remembered, or as a trial shows."""
        given = self.batch if self._batch_was_given else None
        key = ways.key_of(self.model, one.shape[1:], self.device, self.dtype, given)
        way = ways.remembered(key)
        if way is None:
            sizes = TRIED_BATCHES if given is None and self.device.type == "cuda" else (self.batch,)
            way, _ = ways.fastest(
                lambda forward, batch: self._call(forward, self._laid_out(batch), sigma),
                self.model,
                one.to(self.device),
                batches=sizes,
            )
            ways.remember(key, way)
        self.mode, self.batch, self._tried_for = way.mode, way.batch, one.shape[1:]
        self._forward = ways.compiled(self.model, way.mode)

    def _trial(self, batch: Tensor, sigma: float) -> Tensor:
        try:
            output = self._call(self.model, self._laid_out(batch.to(self.device)), sigma)
        except Exception as error:  # a model is the user's code: whatever it raises, its own words say it best
            raise RequestError(
                f"the model does not accept an input of shape {tuple(batch.shape[1:])}: {error}. "
                "Give it a batch of inputs of the shape it was built for, such as (channels, height, width); "
                "a single one needs a batch axis: x[None]"
            ) from error
        class_ids(output, len(batch), self.classes)
        if not self.votes and output.ndim != 2:
            raise RequestError(f"the model must return scores of shape (batch, {self.classes}), not class ids")
        if not self.votes and output.dtype not in (torch.float32, torch.float64):
            raise RequestError(
                f"scores must be 32-bit floats or finer, since their margin counts; got {output.dtype}"
            )
        return output.detach().clone()

    def vote(self, batch: Tensor, sigma: float) -> tuple[Tensor, Tensor]:
        """Class ids of a batch, (n, parts), and a flag (still on the device): whether any of them is no class.

        A batch that does not fit the device's memory is halved until it does, and so are those to come.
        """
        while True:
            try:
                parts = [self._votes(batch[i : i + self.batch], sigma) for i in range(0, len(batch), self.batch)]
            except torch.OutOfMemoryError:
                if self.batch == 1:
                    raise
                self.batch //= 2
                torch.cuda.empty_cache()
            else:
                votes, invalid = zip(*parts, strict=True)
                return torch.cat(votes), torch.stack(invalid).any()

    def _votes(self, batch: Tensor, sigma: float) -> tuple[Tensor, Tensor]:
        output = self._output(batch, sigma)
        ids, invalid = class_ids(output, len(batch), self.classes)
        if len(self.parts) == 1:
            return ids[:, None], invalid
        return torch.stack(
            [part.argmax(1) for part in torch.split(output, list(self.parts), dim=1)], dim=1
        ), invalid

    def _output(self, batch: Tensor, sigma: float) -> Tensor:
        batch = self._laid_out(batch.to(self.device))
        if not self.compiled or len(batch) >= self.batch:
            return self._call(self._forward, batch, sigma)
        # A compiled network is made for one size of batch; what is filled up is cut off again.
        padded = torch.cat([batch, batch[:1].expand(self.batch - len(batch), *batch.shape[1:])])
        return self._call(self._forward, padded, sigma)[: len(batch)]

    def _laid_out(self, batch: Tensor) -> Tensor:
        """As the model likes it; on a GPU a copy: it may work in place, and what ran out of memory comes again."""
        layout = self.layout if batch.ndim == 4 else torch.contiguous_format
        if self.device.type == "cuda":
            return batch.clone(memory_format=layout)
        return batch.contiguous(memory_format=layout)

    def scores(self, batch: Tensor) -> Tensor:
        """The logits of a batch without noise, on the CPU, in whole 32 bits; seen to be numbers."""
        output = self._call(self._forward, batch.to(self.device), 0.0)
        class_ids(output, len(batch), self.classes)
        if not bool(output.isfinite().all()):
            raise RunError("the model returned scores that are not finite. Check the weights and their precision")
        return output.detach().cpu()

    def like(self, other: "Voter") -> bool:
        """Whether the two cast the same votes in the same way, so that one can do the work of both."""
        return self.model is other.model and self._way() == other._way()

    def _way(self) -> tuple[object, ...]:
        # A batch nobody asked for follows the inputs' shape, and may not have met any yet.
        batch = self.batch if self._batch_was_given else None
        return self.classes, self.device, self.dtype, self.compile, self.votes, batch

    def _call(self, model: Model, batch: Tensor, sigma: float) -> Tensor:
        with torch.inference_mode(), self._precision(), nullcontext() if self.votes else whole_products():
            if not self.takes_sigma:
                return model(batch)
            return model(batch, sigma if model is self.model else self._for_compiled(sigma))

    def _for_compiled(self, sigma: float) -> float | Tensor:
        """A tensor where that will do: a compiled network is compiled anew for every number it is told."""
        if not getattr(self.model, "sigma_may_be_tensor", False):
            return sigma
        return torch.full((1,), sigma, dtype=torch.float64, device=self.device)  # to be rounded as a number is

    def _precision(self) -> AbstractContextManager[Any]:
        if self.dtype is not torch.float32:
            return torch.autocast(self.device.type, dtype=self.dtype)
        # The caller may be within an autocast of their own; what is recorded as 32 bits must be.
        foreign = torch.is_autocast_enabled(self.device.type)
        return torch.autocast(self.device.type, enabled=False) if foreign else nullcontext()


def cpu_batch(numbers: int) -> int:
    """Inputs a forward pass so that a layer's results stay in the cache: 1,024 of 8x8 pixels, 128 of 3x32x32."""
    fitting = max(1, CACHED_NUMBERS // numbers)
    return min(CPU_BATCH, max(BLOCK, 1 << fitting.bit_length() - 1))


def _alike(first: Tensor, second: Tensor) -> bool:
    """Equal class ids, or logits equal up to what rounding does in a batch of the same size."""
    if not first.is_floating_point():
        return torch.equal(first, second)
    if not torch.equal(first.isfinite(), second.isfinite()):
        return False
    # Only what can decide the vote counts: a class that is masked out must not make the rest look alike.
    one, other = (
        torch.nan_to_num((t - t.amax(1, keepdim=True)).float()).clamp(min=MASKED) for t in (first, second)
    )
    spread = one[one > MASKED].abs().max()  # never empty: the leading class of each row stands at 0
    return bool((one - other).abs().max() <= 1e-2 * spread)


def keep_freed_memory() -> None:
    """Make the C library keep what a batch frees, where it would hand it back and fault it in again.

    glibc learns from a large block that is freed; without this a small network spends most of its time on page
    faults (measured: 120,000 votes a second instead of 340,000). Elsewhere it does nothing.
    """
    torch.empty(LARGEST_LEARNED, dtype=torch.uint8, device="cpu")


def class_ids(output: Any, rows: int, classes: int) -> tuple[Tensor, Tensor]:
    """Votes from a model's output, whichever of the two allowed forms it has, and whether any is invalid."""
    if not isinstance(output, Tensor) or output.shape[:1] != (rows,) or output.ndim > 2:
        shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise RequestError(
            f"the model must return logits of shape (batch, {classes}) or class ids of shape (batch,); "
            f"for a batch of {rows} it returned {shape}"
        )
    if output.ndim == 1:
        if output.is_floating_point() or output.is_complex() or output.dtype is torch.bool:
            raise RequestError(
                f"class ids must be integers; the model returned {output.dtype} of shape {tuple(output.shape)}. "
                f"Return logits of shape (batch, {classes}), or ids such as logits.argmax(1)"
            )
        # Clamped so that an invalid id cannot be counted out of bounds before its flag is read.
        return output.long().clamp(0, classes - 1), ((output < 0) | (output >= classes)).any()
    if output.is_complex() or output.dtype is torch.bool:
        raise RequestError(f"logits must be real numbers; the model returned {output.dtype}")
    if output.shape[1] != classes:
        raise RequestError(
            f"the scheme was told classes={classes}, but the model returns {output.shape[1]} logits an input; "
            "make the two agree"
        )
    return output.argmax(1), output.isnan().any()


def refuse_invalid(flag: Tensor, classes: int) -> None:
    """Raise if a vote was no class: counting it anywhere would be a guess."""
    if flag.item():
        raise RunError(
            f"the model returned NaN logits or a class id outside 0..{classes - 1}; no votes were counted for "
            "this input. Check the weights, and the precision (dtype) they run in"
        )


def _device(model: Model, device: str | torch.device | None) -> torch.device:
    if device is None:
        tensors = [*model.parameters(), *model.buffers()] if isinstance(model, nn.Module) else []
        return tensors[0].device if tensors else torch.device("cpu")
    try:
        chosen = torch.device(device)
        torch.empty(1, device=chosen)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise RequestError(f"device {str(device)!r} cannot be used here: {error}. Try device='cpu'") from error
    return chosen


def _dtype(dtype: torch.dtype | None) -> torch.dtype:
    allowed = (torch.float32, torch.bfloat16, torch.float16)
    if dtype is not None and dtype not in allowed:
        raise RequestError(f"dtype must be one of {', '.join(map(str, allowed))}; got {dtype}")
    return dtype or torch.float32


def _batch(batch: int | None, device: torch.device) -> int:
    if batch is None:
        return CPU_BATCH if device.type == "cpu" else GPU_BATCH
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
        raise RequestError(f"batch must be a whole number of inputs, at least 1; got {batch!r}")
    return batch
