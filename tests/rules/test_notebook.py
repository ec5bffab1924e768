"""Certificates and predictions in a notebook: well-formed, escaped, self-contained, rounded to the safe side."""

from html.parser import HTMLParser

import pytest
import torch

from sigmax.rules.certificate import Certificate, Outcome, Prediction, Role, Stage
from tests.schemes.schemes import TABLE, linear

EVIL = '<img src="https://elsewhere.example/x.png">&'


class Page(HTMLParser):
    """The texts of a page by tag; tags must close in their order, and none may fetch or run anything."""

    def __init__(self, html):
        super().__init__()
        self.open, self.cells, self.rows, self.text = [], [], 0, ""
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        assert tag in {"div", "p", "b", "span", "table", "thead", "tbody", "tr", "th", "td"}
        assert {name for name, _ in attrs} <= {"style"}
        assert not any("url" in value for _, value in attrs)
        self.open.append(tag)
        self.rows += tag == "tr" and "tbody" in self.open
        if tag in {"td", "th"}:
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if {"td", "th"} & set(self.open):
            self.cells[-1] += data


@pytest.mark.parametrize("name", TABLE)
def test_every_scheme_is_shown_stage_by_stage(name):
    scheme = TABLE[name].build(linear(), 10)
    x = (16 * torch.linspace(0, 1, 128).reshape(2, 1, 8, 8)).round() / 16
    for found in (*scheme.certify(x, n0=50, n=200, alpha=0.01), *scheme.predict(x, n=100, alpha=0.01)):
        page = Page(found._repr_html_())
        assert page.rows == len(found.stages)
        if isinstance(found, Certificate):
            assert found.explain() in page.text
            assert (found.limit is None) == ("limits the radius" not in page.text and "decides" not in page.text)


def test_what_is_shown():
    stages = (
        Stage("last", Role.SELECTION, 0.25, (60, 40), 100),
        Stage("last", Role.ESTIMATION, 0.25, (9_990, 10), 10_000, 0.01, 0.98765, None, 0.56789),
        Stage(EVIL, Role.ESTIMATION, 1.0, (9, 1, 90), 100, 0.01, None, 0.12341, 0.7),
    )
    found = Certificate(0, 0.56789, Outcome.CERTIFIED, 0.02, stages, limited_by="last/estimation")
    page = Page(found._repr_html_())
    assert page.text.startswith("Class 0 within radius 0.5678; limited by last's estimation")
    assert page.cells[6:12] == ["last", "selection", "0.25", "0: 60 of 100", "", "nothing; it picks what is estimated"]
    assert page.cells[15:18] == [
        "0: 9,990 of 10,000",
        "p_A >= 0.9876",
        "radius 0.5678 of this part alone; limits the radius",
    ]
    assert (page.cells[18], page.cells[22]) == (EVIL, "every other p <= 0.1235")


@pytest.mark.parametrize(
    ("predicted", "outcome", "begins"),
    [(3, Outcome.PREDICTED, "Class 3: the class leads"), (None, Outcome.TOO_CLOSE, "Abstained (too_close): ")],
)
def test_a_prediction(predicted, outcome, begins):
    stage = Stage("", Role.PREDICTION, 0.5, (1, 2, 0, 97), 100)
    page = Page(Prediction(predicted, 0.00001, outcome, 0.001, (stage,))._repr_html_())
    assert page.text.startswith(begins)
    assert "p-value at most 0.0001 at alpha 0.001; 100 samples" in page.text
    assert page.cells[-6:-3] == ["whole", "prediction", "0.5"]
