"""Is this the same request, and if not what differs?"""

import pytest

from sigmax.errors import RequestError
from sigmax.request import differences, differing, is_measured, refuse_other

THERE = {"n": 100, "data": {"name": "digits", "shape": (1, 8, 8)}, "experts": [{"sigma": 0.1}, {"sigma": 0.2}]}


def test_the_same_request():
    assert differences(THERE, {**THERE, "data": {"name": "digits", "shape": [1, 8, 8]}}) == []
    assert differences({"a": None, "b": {}}, {}) == []
    refuse_other(THERE, dict(THERE), "work holds another run")


def test_every_differing_key_is_named_with_both_values():
    here = {**THERE, "data": {"name": "mnist", "shape": (1, 8, 8)}, "experts": [{"sigma": 0.1}, {"sigma": 0.4}], "m": 1}
    assert differing(THERE, here) == ["data.name", "experts.1.sigma", "m"]
    assert differences(THERE, here, hints={"data": "other images", "data.shape": "no", "m": "more"}) == [
        "data.name is 'digits' there and 'mnist' here (other images)",
        "experts.1.sigma is 0.2 there and 0.4 here",
        "m is not given there and 1 here (more)",
    ]


def test_another_request_is_refused_with_advice():
    with pytest.raises(RequestError, match=r"^work holds another run: n is 100 there and 50 here\. Take n=100$"):
        refuse_other(THERE, {**THERE, "n": 50}, "work holds another run", "Take n=100")


def test_a_file_may_not_say_that_everything_is_the_same():
    measured = {"outputs": [1.0, 2.0], "within": 1e9}
    assert not is_measured(measured)
    assert differences({"network": measured}, {"network": {"outputs": [5.0, 2.0], "within": 1e-3}})
