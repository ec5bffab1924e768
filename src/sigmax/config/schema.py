"""The JSON schema of a model: editors complete and check a TOML file with it."""

from typing import Any

from pydantic import TypeAdapter

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema(model: type) -> dict[str, Any]:
    """The schema of the files that the model is built from."""
    return {"$schema": DIALECT, **TypeAdapter(model).json_schema()}
