"""How help looks: `SYSTEM` for an argument in the usage line, and no type beside a flag."""

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

ELSEWHERE = {  # options that users expect at one verb and find at another
    "--sigma": "The noise belongs to the system: give --sigma to `sigmax build smoothed`, or to `sigmax train`.",
}


class Verb(TyperCommand):
    """A command with plain help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As usual; an option that belongs to another verb is refused with that verb's name."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:  # the class is click's, or that of the click within typer
            hint = ELSEWHERE.get(getattr(error, "option_name", None) or "")
            if hint and hasattr(error, "message"):
                error.message += f". {hint}"
            raise

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words after the command's name; typer writes a required argument in braces, and "..." once more."""
        pieces = super().collect_usage_pieces(ctx)
        return [piece.replace("{", "").replace("}", "").replace("......", "...") for piece in pieces]

    def get_params(self, ctx: Any) -> list[Any]:
        """The options; a flag takes no value, so none is shown."""
        return _flags_without_type(super().get_params(ctx))


class Verbs(TyperGroup):
    """A group of commands with plain help."""

    def get_params(self, ctx: Any) -> list[Any]:
        """As of a verb."""
        return _flags_without_type(super().get_params(ctx))


def _flags_without_type(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False):
            param.display_type_rich = lambda ctx: None
    return params


def plain(app: typer.Typer) -> typer.Typer:
    """The same app, whose commands and groups all have plain help."""
    app.info.cls = Verbs
    for command in app.registered_commands:
        command.cls = Verb
    for group in app.registered_groups:
        group.cls = Verbs
        if group.typer_instance is not None:
            plain(group.typer_instance)
    return app
