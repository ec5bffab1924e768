"""Options as pydantic models: what a file or the command line may say, checked, with defaults and descriptions."""

from sigmax.config.changes import changed, with_changes
from sigmax.config.tables import json_schema, markdown
from sigmax.config.validation import Options, build, inside, options

__all__ = ["Options", "build", "changed", "inside", "json_schema", "markdown", "options", "with_changes"]
