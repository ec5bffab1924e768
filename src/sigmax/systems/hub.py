"""Systems on the Hugging Face hub: fetch one, keep one in a folder with a card, and put one there.

What travels is the system's folder, which `load` checks, so what arrives is what was built.
"""

import os
from pathlib import Path
from typing import Any

from sigmax.errors import RequestError, RunError, needs
from sigmax.models.optional import fetched
from sigmax.schemes.scheme import Scheme
from sigmax.systems.folder import FILES as NETWORKS
from sigmax.systems.folder import HEAD, README, fingerprint, load, save

CARD = README
FILES = (HEAD, *NETWORKS, CARD)


def from_pretrained(source: str | os.PathLike[str], *, revision: str | None = None, **how: Any) -> Scheme:
    """The system of a local folder, or of the hub's repository "owner/name" at this revision.

    how: device, dtype, batch, compile, as of `load`.
    """
    return load(fetched(source, FILES, revision=revision, expected="a system folder"), **how)


def save_pretrained(scheme: Scheme, folder: str | os.PathLike[str]) -> Path:
    """Write the system to `folder`, as `scheme.save` does, with a card for the hub; one that is there stays."""
    path = save(scheme, Path(folder))
    card = path / CARD
    if not card.exists():
        try:
            card.write_text(_card(scheme), encoding="utf-8")
        except OSError as error:
            raise RunError(f"{card} could not be written ({error.strerror}); the system itself is saved") from error
    return path


def push_to_hub(
    folder: str | os.PathLike[str], repository: str, *, private: bool = False, message: str = "Add the system"
) -> str:
    """Upload the system in `folder` to the hub's repository "owner/name", created if need be; returns its address.

    Log in with huggingface_hub's own command first. The folder is loaded before anything is sent, so that what is
    uploaded is a whole system; other files in it stay here.
    """
    hub = needs("huggingface_hub", extra="hub", why="to reach the hub")
    if len(repository.split("/")) != 2:
        raise RequestError(f"a repository is named owner/name; got {repository!r}")
    load(Path(folder))
    interface = hub.HfApi()
    try:
        address = interface.create_repo(repository, private=private, exist_ok=True)
        interface.upload_folder(
            folder_path=folder, repo_id=repository, allow_patterns=list(FILES), commit_message=message
        )
    except hub.errors.HFValidationError as error:
        raise RequestError(f"{repository!r} cannot be the name of a repository: {error}") from error
    except (OSError, hub.errors.HfHubHTTPError) as error:
        raise RunError(
            f"{repository} could not be written on the hub: {error}. Are you logged in, and may you write there?"
        ) from error
    return str(address)


def _card(scheme: Scheme) -> str:
    return f"""---
library_name: sigmax
tags: [certified-robustness, randomized-smoothing]
---
# {scheme!r}

A system of sigmax: a classifier whose answers come with a radius within which no perturbation changes them.
Radii are in the norm {scheme.rule.norm}.

    import sigmax as sx
    system = sx.load("hub:owner/name")  # this repository
    system.certify(images, n0=100, n=10_000, alpha=0.001)  # pixels in [0, 1]

Fingerprint: `{fingerprint(scheme)}`
"""
