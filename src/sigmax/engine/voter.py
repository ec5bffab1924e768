"""A network as a voter: a batch of noisy inputs in, one class id each out."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from sigmax.engine import compilation, placement, trial
from sigmax.engine.exact import exact_scores, in_double
from sigmax.engine.modes import eval_mode
from sigmax.engine.outputs import class_ids, raised_by_model
from sigmax.engine.precision import check_computes_in, full_precision
from sigmax.engine.settings import Model, Precision, batch_size, cpu_batch, device_of, dtype_of
from sigmax.errors import RequestError, RunError
from sigmax.models.adapters.exported import called
from sigmax.models.answers import as_tensor
from sigmax.noise.gaussian import trial_copies

TRIED_BATCHES = (1024, 2048, 4096)  # where a GPU's best one is to be found
PIECES, LEAST_PIECE = 8, 128  # of a compiled batch: less than half of one is run in eighths of this size or more
SMALL = 256  # numbers of an input, below which a CPU convolves faster in the usual layout, as measured


class Voter:
    """A model with the device, precision and batch size it votes with.

    `model`: any callable from a batch to logits (batch, classes) or to class ids (batch,). One that declares
    `takes_sigma = True` is called as `model(batch, sigma)`. Numpy arrays and Hugging Face outputs will do. A torch
    module is left where it is: it votes with copies of what lies on another device, and of convolutions' weights,
    which are laid out channels last (see `placement`).
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
        dtype: Precision | None = None,
        batch: int | None = None,
        compile: bool | str = False,  # noqa: A002 (the name users know from torch)
        votes: bool = True,
        parts: tuple[int, ...] | None = None,
    ) -> None:
        self.model = model = called(model, "logits or class ids")
        self.classes = classes
        self.device = device_of(model, device)
        self.dtype = dtype_of(dtype)
        check_computes_in(model, self.dtype)
        self.batch = batch_size(batch, self.device)
        self._batch_was_given = batch is not None
        self.takes_sigma = bool(getattr(model, "takes_sigma", False))
        convolves = isinstance(model, nn.Module) and any(isinstance(part, nn.Conv2d) for part in model.modules())
        self.layout = torch.channels_last if votes and convolves else torch.contiguous_format
        self._copies: list[placement.Copied] | None = None  # of the model's tensors; made before the first vote
        self.compile = compilation.mode_of(compile)
        self.mode = "off" if self.compile == compilation.AUTO else self.compile
        self._forward: Model = compilation.compiled(model, self.mode)
        self._tried_for: torch.Size | None = None  # the shape of inputs that "auto" has decided for
        self._tried: dict[object, tuple[object]] = {}  # full batches that were tried, and with which weights
        self.votes = votes
        self._double: tuple[Model | None] | None = None  # the model in 64 bits, for scores; made when first asked for
        self.parts = parts or (classes,)  # the model's logits are those of several networks side by side
        # With others, where they share work (`sharing`). The key holds the voters, so that none of them is replaced.
        self.joint: dict[tuple[Voter, ...], Voter] = {}

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs to vote as this one does: settled mode and batch, and any device of the kind."""
        settled = self.mode if self.compile != compilation.AUTO or self._tried_for is not None else self.compile
        here = ("_forward", "_copies", "joint", "device", "_tried", "_double")
        state = {name: value for name, value in vars(self).items() if name not in here}
        layout = str(self.layout).removeprefix("torch.")  # torch cannot save the object
        return {**state, "device": self.device.type, "compile": settled, "layout": layout, "_batch_was_given": True}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.device, self.layout = device_of(self.model, state["device"]), getattr(torch, state["layout"])
        self.joint, self._tried = {}, {}
        self._copies = self._double = None
        self._forward = compilation.compiled(self.model, self.mode)

    @property
    def compiled(self) -> bool:
        """Whether the network runs compiled, and so in batches of one size."""
        return self.mode != "off"

    def lay_out(self, layout: torch.memory_format) -> None:
        """How weights and images lie in memory: with channels of a pixel side by side convolutions are faster."""
        self.layout, self._copies = layout, None

    def copies(self, *, fresh: bool = False) -> list[placement.Copied]:
        """Copies of the model's tensors where they lie wrong; `fresh`: as the model's are now, also if trained."""
        if self._copies is None or fresh:
            module = self.model if isinstance(self.model, nn.Module) else None
            self._copies = [] if module is None else placement.copies(module, self.device, self.layout)
        return self._copies

    def _settle_layout(self, batch: Tensor, sigma: float) -> None:
        """Go back to the usual layout where a model insists on it, as one with .view() between layers does."""
        if self.layout is torch.channels_last:
            try:
                with voting([self]):
                    self._call(self.model, self._laid_out(batch.to(self.device)), sigma)
            except Exception:  # whatever it is, the trial that follows says it
                self.lay_out(torch.contiguous_format)

    def fit_to(self, numbers: int) -> None:
        """Choose batch and layout for inputs of so many numbers, on a CPU."""
        if self.device.type != "cpu":
            return
        if not self._batch_was_given:
            self.batch = cpu_batch(numbers)
        if numbers < SMALL:
            self.lay_out(torch.contiguous_format)

    def check(self, x: Tensor, sigma: float, *, unchanged: bool = False) -> None:
        """Cast a few votes to find out, before any long work, whether model and inputs fit together.

        `unchanged`: the model is as it was at the last check, as within a run; full batches are not tried again.
        """
        if not unchanged:
            self._double = None  # the model may have been trained since
        self.fit_to(x[0].numel())
        self.copies(fresh=True)
        weights = None if unchanged else trial.state_of(self.model)
        noisy = trial_copies(x, sigma, trial.COPIES).to(self.device)
        if not self._was_tried(x, sigma, weights, unchanged=unchanged):
            self._settle_layout(noisy[: trial.SMALL].clone(), sigma)
        plain = partial(self._trial, self.model, sigma=sigma)
        with voting([self]):
            trial.small_trial(plain, noisy, self.dtype)
            if self.compile == compilation.AUTO and self._tried_for != x.shape[1:]:
                self._choose_mode(noisy[:1], sigma)
            if self.votes and not self._was_tried(x, sigma, weights, unchanged=unchanged):
                settled = self._settled(x, sigma)
                alike = trial_copies(x[:1], sigma, trial.COPIES).to(self.device)  # of one input, as most batches are
                reference = trial.answers_in_small_batches(plain, alike)
                self._try_as_voting(alike, sigma, reference)
                trial.pair_trial(plain, alike, reference, self.dtype)
                self._tried[*settled, self.batch] = (weights,)

    def _settled(self, x: Tensor, sigma: float) -> tuple[object, ...]:
        return x.shape[1:], sigma, self.mode, self.layout

    def _was_tried(self, x: Tensor, sigma: float, weights: str | None, *, unchanged: bool) -> bool:
        """Whether full batches of such inputs were tried in the form that votes now, and with these weights."""
        before = self._tried.get((*self._settled(x, sigma), self.batch))
        return before is not None and (unchanged or before == (weights,) != (None,))

    def _try_as_voting(self, noisy: Tensor, sigma: float, reference: Tensor) -> None:
        """Try the sizes of batches that are cast, in the form that votes. Where memory ends, batches are halved."""
        piece = self.batch // PIECES
        others = (trial.between(self.batch),) if not self.compiled else (piece,) if piece >= LEAST_PIECE else ()
        for size in (self.batch, *others):
            try:
                call = partial(self._trial, self._forward, sigma=sigma)
                trial.large_trial(call, noisy, size, reference, self.dtype)
            except torch.OutOfMemoryError:
                self._halve_batch()
                self._try_as_voting(noisy, sigma, reference)
                return

    def _choose_mode(self, one: Tensor, sigma: float) -> None:
        """Settle how to run the network on inputs like `one`: as remembered, or as a trial shows."""
        given = self.batch if self._batch_was_given else None
        key = compilation.key_of(self.model, one.shape[1:], self.device, self.dtype, given)
        best = compilation.remembered(key)
        if best is None:
            sizes = TRIED_BATCHES if given is None and self.device.type == "cuda" else (self.batch,)
            best, _ = compilation.fastest(
                lambda forward, batch: self._call(forward, self._laid_out(batch), sigma),
                self.model,
                one.to(self.device),
                batches=sizes,
            )
            compilation.remember(key, best)
        self.mode, self.batch, self._tried_for = best.mode, best.batch, one.shape[1:]
        self._forward = compilation.compiled(self.model, best.mode)

    def _trial(self, forward: Model, batch: Tensor, sigma: float) -> Tensor:
        try:
            output = self._call(forward, self._laid_out(batch), sigma)
        except (RequestError, torch.OutOfMemoryError):
            raise
        except Exception as error:  # a model is the user's code: whatever it raises, its own words say it best
            raise raised_by_model(error, batch, self.device) from error
        class_ids(output, len(batch), self.classes)
        if not self.votes and output.ndim != 2:
            raise RequestError(f"the model must return scores of shape (batch, {self.classes}), not class ids")
        if not self.votes and output.dtype not in (torch.float32, torch.float64):
            raise RequestError(f"scores must be 32-bit floats or finer, since their margin counts; got {output.dtype}")
        return output.detach().clone()

    def vote(self, batch: Tensor, sigma: float) -> tuple[Tensor, Tensor]:
        """Class ids of a batch, (n, parts), and a flag (still on the device): whether any of them is no class.

        A batch that does not fit the device's memory is divided by two until it does, and so are those to come.
        """
        while True:
            try:
                parts = [self._votes(batch[i : i + self.batch], sigma) for i in range(0, len(batch), self.batch)]
            except torch.OutOfMemoryError:
                self._halve_batch()
            else:
                if len(parts) == 1:
                    return parts[0]
                votes, invalid = zip(*parts, strict=True)
                return torch.cat(votes), torch.stack(invalid).any()

    def _halve_batch(self) -> None:
        """To be called where a batch did not fit the memory."""
        if self.batch == 1:
            raise  # noqa: PLE0704 (the error that is being handled)
        self.batch //= 2
        torch.cuda.empty_cache()

    def _votes(self, batch: Tensor, sigma: float) -> tuple[Tensor, Tensor]:
        output = self.output(batch, sigma)
        ids, invalid = class_ids(output, len(batch), self.classes)
        if len(self.parts) == 1:
            return ids[:, None], invalid
        return torch.stack([part.argmax(1) for part in torch.split(output, list(self.parts), dim=1)], dim=1), invalid

    def output(self, batch: Tensor, sigma: float) -> Tensor:
        """What the network returns for a batch of at most `batch` noisy inputs."""
        batch = self._laid_out(batch.to(self.device))
        size = self._run_as(len(batch))
        if size == len(batch):
            return self._call(self._forward, batch, sigma)
        if size > len(batch):
            return self._padded(batch, size, sigma)
        # Adaptive sampling has small rounds. A captured graph overwrites its output, so each piece's is copied.
        return torch.cat([self._padded(piece, size, sigma).clone() for piece in torch.split(batch, size)])

    def _run_as(self, rows: int) -> int:
        """The size of the batches that so many rows, at most a batch, are run in: a compiled network has two."""
        small = self.batch // PIECES
        if not self.compiled or rows >= self.batch:
            return rows
        return self.batch if small < LEAST_PIECE or rows > self.batch // 2 else small

    def padding(self, votes: int) -> int:
        """How many rows are run in vain when so many votes are cast in full batches and one of what is left."""
        left = votes % self.batch
        return -left % self._run_as(left) if left else 0

    def _padded(self, batch: Tensor, size: int, sigma: float) -> Tensor:
        """A compiled network is compiled for each size of batch, so there are two; what is padded is cut off again."""
        padded = torch.cat([batch, batch[:1].expand(size - len(batch), *batch.shape[1:])])
        layout = self.layout if batch.ndim == 4 else torch.contiguous_format  # another would be compiled again
        return self._call(self._forward, padded.contiguous(memory_format=layout), sigma)[: len(batch)]

    def _laid_out(self, batch: Tensor) -> Tensor:
        """As the model likes it; on a GPU a copy: it may work in place, and what ran out of memory comes again."""
        layout = self.layout if batch.ndim == 4 else torch.contiguous_format
        if self.device.type == "cuda":
            return batch.clone(memory_format=layout)
        return batch.contiguous(memory_format=layout)

    def scores(self, batch: Tensor) -> tuple[Tensor, int]:
        """The logits of a batch without noise, on the CPU, checked to be finite; and their bits: 64, or else 32."""
        batch = batch.to(self.device)
        output = self._exact_scores(batch.double())
        bits = 32 if output is None else 64
        if output is None:
            output = self._call(self._forward, batch.clone(), 0.0)  # a copy: it may work in place
        class_ids(output, len(batch), self.classes)
        if not bool(output.isfinite().all()):
            raise RunError("the model returned scores that are not finite. Check the weights and their precision")
        return output.detach().cpu(), bits

    def _exact_scores(self, batch: Tensor) -> Tensor | None:
        if self._double is None:
            self._double = (in_double(self.model, self.device),)
        (double,) = self._double
        if double is None:
            return None
        with torch.autocast(self.device.type, enabled=False), full_precision():
            return exact_scores(double, batch, *([0.0] if self.takes_sigma else []))

    def like(self, other: "Voter") -> bool:
        """Whether the two cast the same votes with the same settings, so that one can do the work of both."""
        return self.model is other.model and self._settings() == other._settings()

    def _settings(self) -> tuple[object, ...]:
        # A batch nobody asked for follows the inputs' shape, and may not have met any yet.
        batch = self.batch if self._batch_was_given else None
        return self.classes, self.device, self.dtype, self.compile, self.votes, batch

    def _call(self, model: Model, batch: Tensor, sigma: float) -> Tensor:
        with torch.inference_mode(), self._precision(), nullcontext() if self.votes else full_precision():
            if not self.takes_sigma:
                output = model(batch)
            else:
                output = model(batch, sigma if model is self.model else self._for_compiled(sigma))
        checked_later: Tensor = as_tensor(output, self.device)
        return checked_later

    def _for_compiled(self, sigma: float) -> float | Tensor:
        """A tensor where the model takes one: a compiled network is compiled again for every number it is given."""
        if not getattr(self.model, "sigma_may_be_tensor", False):
            return sigma
        return torch.full((1,), sigma, dtype=torch.float64, device=self.device)  # to be rounded as a number is

    def _precision(self) -> AbstractContextManager[Any]:
        if self.dtype is not torch.float32:
            return torch.autocast(self.device.type, dtype=self.dtype)
        # The caller may be within an autocast of their own; what is recorded as 32 bits must be.
        foreign = torch.is_autocast_enabled(self.device.type)
        return torch.autocast(self.device.type, enabled=False) if foreign else nullcontext()


@contextmanager
def voting(voters: Iterable[Voter]) -> Iterator[None]:
    """Within it the voters' modules are in eval mode, on their devices and laid out; afterwards as they were."""
    voters = list(voters)
    usual = [voter for voter in voters if voter.layout is torch.contiguous_format]
    laid_out = [voter for voter in voters if voter.layout is not torch.contiguous_format]
    keep = [voter.model for voter in usual if isinstance(voter.model, nn.Module)] if laid_out else []
    with ExitStack() as stack:
        # A model that insists on the usual layout has its way with what it shares, so it comes last.
        stack.enter_context(placement.in_place([voter.copies() for voter in (*laid_out, *usual)], keep))
        for model in {id(voter.model): voter.model for voter in voters}.values():
            if isinstance(model, nn.Module):
                stack.enter_context(eval_mode(model))
        yield
