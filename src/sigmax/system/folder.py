"""A system is a folder: `system.toml` says what the scheme is, safetensors hold its networks.

Nothing in the folder is executed. Every network's fingerprint is written down and checked on loading, so a
file that was exchanged is noticed before it certifies anything.
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sigmax import __version__, models
from sigmax.certify.dual import Dual
from sigmax.certify.dual_parts import ROUTER, expert_name
from sigmax.certify.dual_rule import DualRule
from sigmax.certify.fields import SigmaField
from sigmax.certify.lipschitz import Lipschitz
from sigmax.certify.lipschitz_rule import LipschitzRule
from sigmax.certify.memorized import Memorized
from sigmax.certify.memorized_rule import MemorizedRule
from sigmax.certify.multiscale import Multiscale
from sigmax.certify.multiscale_rule import MultiscaleRule
from sigmax.certify.procedure import Rule
from sigmax.certify.rebuild import rebuild
from sigmax.certify.scale import scale_name
from sigmax.certify.scheme import Scheme
from sigmax.certify.semi_elastic import SemiElastic
from sigmax.certify.semi_elastic_rule import SemiElasticRule
from sigmax.certify.smoothed import Smoothed
from sigmax.certify.smoothed_rule import SmoothedRule
from sigmax.errors import RequestError
from sigmax.files import replacing
from sigmax.models.halves import Store, check_store
from sigmax.models.optional import fetched
from sigmax.models.sure import PART
from sigmax.system import zoo
from sigmax.system.field_files import check_fields, load_field, save_fields
from sigmax.system.networks import Known, Networks, entries, files_of, fingerprint_of, kept_elsewhere, parts_of
from sigmax.system.rounded import Rounded
from sigmax.system.toml import dumps

FORMAT = 1
HEAD = "system.toml"
ON_CPU: Mapping[str, Any] = {"device": "cpu", "dtype": None, "batch": None, "compile": False}


def save(scheme: Scheme, folder: str | Path, *, store: Store = "fp32") -> Path:
    """Write the scheme and its networks to `folder`; the head comes last, so a half-written folder is no system.

    `store="bf16"`: half the room; what is written, and its fingerprint, is the system with its weights so rounded.
    """
    folder, scheme = Path(folder), as_stored(scheme, store)
    networks = entries(scheme)
    check_fields(scheme)
    _refuse_other(folder, scheme)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        parts, elsewhere = parts_of(scheme), kept_elsewhere(scheme)
        whole_first = sorted(files_of(scheme).items(), key=lambda kept: kept[0] in elsewhere)
        for name, file in whole_first:  # so that one cut short can be told from another system's
            model = parts[name]
            assert isinstance(model, nn.Module)
            models.save(folder / file, model, store=store, without=PART if name in elsewhere else "")
        save_fields(scheme, folder)
        with replacing(folder / HEAD) as draft:
            draft.write_text(dumps(_head(scheme, networks)))
    except OSError as error:
        raise RequestError(
            f"cannot write the system to {folder} ({error.strerror}); choose another folder"
        ) from error
    return folder


def as_stored(scheme: Scheme, store: Store) -> Scheme:
    """What a system is once it is kept like this: itself, or a copy on the CPU with its weights rounded."""
    check_store(store)
    return scheme if store == "fp32" else _scheme(scheme.rule, "", Rounded(scheme), ON_CPU)


def load(
    source: str | Path,
    *,
    device: str | torch.device | None = None,
    dtype: torch.dtype | None = None,
    batch: int | None = None,
    compile: bool | str = False,  # noqa: A002 (the name users know from torch)
) -> Scheme:
    """Reads a folder that `.save` or `sigmax build` wrote, "zoo:name" or "hub:owner/name"; refuses changed files.

    device, dtype, batch, compile: as of `Smoothed`.
    """
    how = {"device": device, "dtype": dtype, "batch": batch, "compile": compile}
    return _load(source, how, {})


def load_together(sources: Sequence[str | Path], **how: Any) -> list[Scheme]:
    """Several systems, as `load` reads each; a network that more than one of them uses is one network here."""
    complete = {"device": None, "dtype": None, "batch": None, "compile": False, **how}
    known: Known = {}
    return [_load(source, complete, known) for source in sources]


def _load(source: str | Path, how: Mapping[str, Any], known: Known) -> Scheme:
    folder = _folder(source)
    head = _read_head(folder)
    scheme = _scheme(rebuild(head), "", Networks(folder, folder / HEAD, head.get("networks"), known), how)
    if fingerprint(scheme) != head.get("fingerprint"):
        raise RequestError(
            f"{folder / HEAD} was changed since the system was built (fingerprint {fingerprint(scheme)}, "
            f"not {head.get('fingerprint')}); build the system again with what you want"
        )
    return scheme


def _scheme(rule: Rule, prefix: str, networks: Networks | Rounded, how: Mapping[str, Any]) -> Scheme:
    """The scheme of a rule, with the networks that stand under `prefix` in the head."""
    if isinstance(rule, DualRule):
        router = _scheme(rule.router, f"{prefix}{ROUTER}/", networks, how)
        experts = [_scheme(e, f"{prefix}{expert_name(j)}/", networks, how) for j, e in enumerate(rule.experts)]
        assert isinstance(router, Smoothed)
        return Dual(router, experts, rule=rule.rule)
    if isinstance(rule, MultiscaleRule):
        places = [f"{prefix}{scale_name(s)}/base" for s in reversed(range(len(rule.sigmas)))]
        return Multiscale([networks.get(place, rule.classes) for place in places], **_told(rule), **how)
    model = networks.get(f"{prefix}base", rule.classes)
    if isinstance(rule, SemiElasticRule):
        field = _field(networks, f"{prefix}field", rule.field)
        return SemiElastic(model, field=field, classes=rule.classes, **how)
    if isinstance(rule, MemorizedRule):
        return Memorized(model, **_told(rule), **how)
    if isinstance(rule, LipschitzRule):
        return Lipschitz(model, rule.constant, classes=rule.classes, device=how["device"])
    assert isinstance(rule, SmoothedRule)
    return Smoothed(model, sigma=rule.sigma, classes=rule.classes, bound=rule.bound, **how)


def _field(networks: Networks | Rounded, place: str, told: Mapping[str, Any]) -> SigmaField:
    """The field of this place: from its file, or where networks are only rounded the very same."""
    return networks.fields[place] if isinstance(networks, Rounded) else load_field(networks.folder, place, told)


def _told(rule: Rule) -> dict[str, Any]:
    """What a scheme is told besides its networks: the rule's own fields."""
    return {name: value for name, value in rule.describe().items() if name != "scheme"}


def fingerprint(scheme: Scheme) -> str:
    """32 hex digits that identify what is certified: the rule and every network's weights and architecture."""
    networks = {name: fingerprint_of(name, voter.model) for name, voter in scheme.voters.items()}
    told = json.dumps([dict(scheme.rule.describe()), networks], sort_keys=True)
    return hashlib.sha256(f"sigmax system 1 {told}".encode()).hexdigest()[:32]


def _head(scheme: Scheme, networks: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        **scheme.rule.describe(),
        "fingerprint": fingerprint(scheme),
        "networks": networks,
        "origin": {"made_by": f"sigmax {__version__}"},
    }


def _refuse_other(folder: Path, scheme: Scheme) -> None:
    """Nothing that is not this very system is overwritten; one that was cut short while saving is completed."""
    if not (folder / HEAD).exists():
        for name, kept in files_of(scheme).items():
            if (folder / kept).exists() and not _is_kept(scheme, name, folder, kept):
                raise RequestError(f"{folder / kept} exists and is another network; choose a folder of its own")
        return
    now, there = fingerprint(scheme), _read_head(folder).get("fingerprint")
    if there != now:
        raise RequestError(
            f"{folder} holds another system (fingerprint {there}, not {now}); choose another folder, or remove it"
        )


def _is_kept(scheme: Scheme, name: str, folder: Path, file: str) -> bool:
    """Whether a file of a folder without a head is what saving the scheme would write there."""
    other = kept_elsewhere(scheme).get(name)
    if other is not None and not (folder / other).exists():
        return False
    part = None if other is None else (PART, folder / other)
    return models.fingerprint(folder / file, part=part) == fingerprint_of(name, parts_of(scheme)[name])


def _folder(source: str | Path) -> Path:
    if str(source).startswith(zoo.PREFIX):
        return zoo.folder_of(str(source).removeprefix(zoo.PREFIX))
    if str(source).startswith("hub:"):
        name = str(source).removeprefix("hub:")
        return _folder(fetched(name, (HEAD, "*.safetensors"), expected="a system folder"))
    try:
        folder = Path(source).expanduser()
        found = (folder / HEAD).is_file()
    except (OSError, RuntimeError) as error:  # no such user's home, or a name too long
        raise RequestError(f"{source} cannot be a system folder: {error}") from error
    if folder.suffix in (".safetensors", ".pt", ".pth", ".th"):
        raise RequestError(
            f"{folder} is a checkpoint; make a system of it: sigmax build smoothed {folder} --out SYSTEM"
        )
    if not found:
        raise RequestError(
            f"expected a system folder with a {HEAD} at {folder}; `sigmax build` or `sigmax pipeline run` makes one"
        )
    return folder


def _read_head(folder: Path) -> dict[str, Any]:
    try:
        head = tomllib.loads((folder / HEAD).read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise RequestError(f"{folder / HEAD} cannot be read: {error}") from error
    if head.get("format") != FORMAT:
        raise RequestError(f"{folder / HEAD} has format {head.get('format')!r}; this version reads {FORMAT}")
    return head
