"""What is written is what is read."""

import math
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigmax.errors import RequestError
from sigmax.system.toml import dumps

text = st.text(st.characters(exclude_categories=["Cs"]))
scalars = text | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
tables = st.recursive(
    st.dictionaries(text, scalars | st.lists(scalars)),
    lambda inner: st.dictionaries(text, scalars | inner),
    max_leaves=8,
)


@given(tables)
def test_round_trip(data):
    assert tomllib.loads(dumps(data)) == data


def test_none_is_left_out_and_other_things_are_refused():
    assert dumps({"a": None, "b": 1}) == "b = 1\n"
    assert math.isinf(tomllib.loads(dumps({"a": math.inf}))["a"])
    with pytest.raises(RequestError, match="cannot write a set"):
        dumps({"a": {1}})
