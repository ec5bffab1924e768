"""What the package loads. What may import what is `make layers`."""

import resource
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


@pytest.mark.parametrize(("module", "most"), [("sigmax", 2.0), ("sigmax.bounds", 0.5)])
def test_importing_is_quick(module, most):
    """Processor seconds beyond those of a bare interpreter, the best of three of each: other work only adds."""

    def seconds(code):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    bare, full = (min(seconds(code) for _ in range(3)) for code in ("pass", f"import {module}"))
    assert full - bare < most


def test_every_public_name_exists():
    for name in sx.__all__:
        assert getattr(sx, name) is not None
    assert set(sx.__all__) <= set(dir(sx))
    with pytest.raises(AttributeError, match="no attribute 'Quantum'"):
        _ = sx.Quantum
