"""Files that may have to be fetched first."""

import os
from collections.abc import Sequence
from pathlib import Path

from sigmax.errors import RequestError, RunError, needs


def fetched(
    source: str | os.PathLike[str], patterns: Sequence[str], *, revision: str | None = None, expected: str
) -> Path:
    """A local folder as it is; else the matching files of the hub's "owner/name", never a pickle unless asked for."""
    folder = Path(source).expanduser()
    if folder.is_dir():
        return folder
    name = os.fspath(source)
    if len(name.split("/")) != 2 or folder.suffix in (".pt", ".safetensors") or name.startswith((".", "/", "~")):
        raise RequestError(f"expected {expected} or the hub's name of one, such as owner/name; got {name}")
    hub = needs("huggingface_hub", extra="hub", why=f"to fetch {name} (there is no such folder here)")
    try:
        return Path(hub.snapshot_download(name, revision=revision, allow_patterns=list(patterns)))
    except (hub.errors.RepositoryNotFoundError, hub.errors.HFValidationError) as error:
        raise RequestError(f"there is neither a folder {name} nor such a repository on the hub: {error}") from error
    except (OSError, hub.errors.HfHubHTTPError, hub.errors.LocalEntryNotFoundError) as error:
        raise RunError(
            f"there is no folder {name} here, and from the hub it could not be fetched: {error} "
            "Check the path, try again, or fetch it by hand"
        ) from error
