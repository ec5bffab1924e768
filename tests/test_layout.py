"""The promises of the folder tree: what may import what, and what loads torch."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import sigmax as sx

SOURCE = Path(sx.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))


def imports(path: Path) -> set[str]:
    """Every module a file imports, at the top or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def package(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0]


@pytest.mark.parametrize("path", [p for p in FILES if package(p) in ("bounds", "radius")], ids=lambda p: p.stem)
def test_the_proof_imports_nothing_above_it(path):
    own = {"sigmax.errors", f"sigmax.{package(path)}"}
    above = {
        name
        for name in imports(path)
        if name.startswith("sigmax.") and not any(name == o or name.startswith(f"{o}.") for o in own)
    }
    assert not above
    assert "torch" not in {name.split(".")[0] for name in imports(path)}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_training_is_imported_by_the_command_line_alone(path):
    # The package's own __init__ names it for type checkers, and loads it when it is asked for.
    if package(path) not in ("train", "cli", "__init__.py"):
        assert not {name for name in imports(path) if name == "sigmax.train" or name.startswith("sigmax.train.")}


@pytest.mark.parametrize("path", [p for p in FILES if package(p) == "certify"], ids=lambda p: p.stem)
def test_schemes_never_touch_files(path):
    assert not imports(path) & {"sigmax.records.journal", "sigmax.records.run", "os", "io"}
    assert ".open(" not in path.read_text()


@pytest.mark.parametrize(
    "module", ["sigmax", "sigmax.bounds", "sigmax.radius", "sigmax.records.verify", "sigmax.report"]
)
def test_what_needs_no_torch_loads_none(module):
    code = f"import sys, {module}; assert not {{'torch', 'matplotlib'}} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_public_name_exists():
    for name in sx.__all__:
        assert getattr(sx, name) is not None
    assert set(sx.__all__) <= set(dir(sx))
    with pytest.raises(AttributeError, match="no attribute 'Quantum'"):
        _ = sx.Quantum
