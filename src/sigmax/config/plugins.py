"""What installed packages add: objects by name, as entry points of a group."""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from sigmax.errors import RequestError


@cache
def plugins(group: str) -> Mapping[str, EntryPoint]:
    """The entry points of the group by name."""
    return {plugin.name: plugin for plugin in entry_points(group=group)}


def imported(plugin: EntryPoint, what: str) -> Any:
    """The object of an entry point; `what` names its kind where the package cannot be imported."""
    try:
        return plugin.load()
    except Exception as error:  # another package's code may raise anything
        raise RequestError(
            f"the {what} {plugin.name!r} of {plugin.value} cannot be imported ({error}); repair or remove that package"
        ) from error
