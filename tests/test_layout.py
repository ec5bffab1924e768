"""What the package loads. What may import what is `make layers`."""

import subprocess
import sys

import pytest

import sigmax as sx


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
