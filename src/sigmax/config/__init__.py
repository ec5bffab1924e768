"""Options as pydantic models: what a file or the command line may say, checked, with defaults and descriptions.

`Options` is the base of a table of options and `options` makes a dataclass one; `build` reads them from a mapping,
`changed` puts `KEY=VALUE` into a mapping, `markdown` and `json_schema` describe them.
"""

from sigmax.config.changes import changed, with_changes
from sigmax.config.schema import json_schema
from sigmax.config.tables import markdown
from sigmax.config.validation import Options, build, inside, options

__all__ = ["Options", "build", "changed", "inside", "json_schema", "markdown", "options", "with_changes"]
