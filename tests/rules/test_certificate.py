"""What a certificate says of itself: rounding in print, the stage that limits it, outcomes that are documented."""

from html import unescape
from math import inf
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigmax.errors import RequestError
from sigmax.rules.certificate import Certificate, Outcome, Role, Stage, rounded_down, rounded_up
from tests.schemes.helpers import own_schemes

PAGE = Path(__file__).resolve().parents[2] / "docs" / "certificates.md"


@given(st.floats(-1e6, 1e6), st.integers(0, 6))
def test_what_is_printed_is_on_the_safe_side(value, decimals):
    down, up = rounded_down(value, decimals), rounded_up(value, decimals)
    assert float(down) <= value <= float(up)
    assert float(up) - float(down) <= 1.01 * 10**-decimals


def test_a_number_that_needs_no_rounding_is_printed_as_it_is():
    assert rounded_down(0.5) == rounded_up(0.5) == "0.5000"
    assert (rounded_down(0.1 + 0.2), rounded_up(0.1 + 0.2)) == ("0.3000", "0.3001")
    assert rounded_down(inf) == "inf"


def test_explained():
    stages = (
        Stage("level-0", Role.ESTIMATION, 1.0, (9, 1, 90), 100, 0.01, None, 0.12345, 0.7),
        Stage("last", Role.ESTIMATION, 0.25, (9999, 1), 10_000, 0.01, 0.98765, None, 0.5),
    )
    parts = {"alpha": 0.02, "stages": stages, "answered_by": "last"}
    found = Certificate(0, 0.56789, Outcome.CERTIFIED, **parts, limited_by="last/estimation")
    assert found.explain() == (
        "Class 0 within radius 0.5678; limited by last's estimation (p_A >= 0.9876 from 10,000 samples at noise 0.25)."
    )
    assert (found.sigma, found.samples, found.limit) == (0.25, 10_100, stages[1])
    torn = Certificate(None, 0.0, Outcome.LEVEL_UNDECIDED, **parts, limited_by="level-0/estimation")
    assert torn.explain() == (
        f"Abstained (level_undecided): {Outcome.LEVEL_UNDECIDED.advice}; decided by level-0's estimation "
        "(every other p <= 0.1235 from 100 samples at noise 1)."
    )


def test_a_list_of_certificates_prints_short():
    stage = Stage(part="", role=Role.ESTIMATION, sigma=0.5, counts=(90, 10), n=100, alpha=0.001)
    one = Certificate(predicted=0, radius=0.25, outcome=Outcome.CERTIFIED, alpha=0.001, stages=(stage,))
    assert repr([one]).startswith("[Certificate(predicted=0, radius=0.25, outcome=<Outcome.CERTIFIED")
    assert "counts" not in repr(one)
    assert one != Certificate(predicted=0, radius=0.25, outcome=Outcome.CERTIFIED, alpha=0.001, stages=())


def test_another_tools_radius_is_printed_as_it_was():
    ours, theirs = (Certificate(3, 0.941, outcome, 0.001, ()) for outcome in (Outcome.CERTIFIED, Outcome.CLAIMED))
    assert (ours.shown_radius(), theirs.shown_radius()) == ("0.9409", "0.941")
    claim = "Another tool's log claims class 3 within radius 0.941, "
    assert theirs.explain() == f"{claim}and nothing proves it."
    impossible = Certificate(3, 0.941, Outcome.IMPOSSIBLE, 0.001, ())
    assert impossible.explain() == f"{claim}although its samples cannot show it."
    assert impossible.explain() in unescape(impossible._repr_html_())


def test_every_outcome_is_on_the_page():
    text = PAGE.read_text()
    assert [outcome.name for outcome in Outcome if f"`{outcome.name.lower()}`" not in text] == []


def test_every_scheme_and_what_it_assumes_is_on_the_page():
    text = PAGE.read_text()
    assert [name for name in own_schemes() if f"`{name}`" not in text] == []


@pytest.mark.parametrize(
    ("counts", "n", "looks"), [((5, 5), 11, ()), ((-1, 11), 10, ()), ((5, 5), 10, ((5, 4), (0, 0)))]
)
def test_counts_that_do_not_add_up_are_refused(counts, n, looks):
    with pytest.raises(RequestError, match="counts"):
        Stage("", Role.ESTIMATION, 0.5, counts, n, looks=looks)
