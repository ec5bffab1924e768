"""The matrix of all pairs, and the sentences behind it."""

from sigmax.report import dominance
from sigmax.report.standings import standings
from tests.report.compare.test_dominance import run_with


def test_two_runs_are_a_sentence_and_more_are_a_matrix_too() -> None:
    runs = [run_with(name, *[k] * 200) for name, k in (("a", 900), ("b", 800))]
    assert standings(runs) == ([str(pair) for pair in dominance(runs)], None)
    runs += [run_with("d", *[950] * 80, *[510] * 120), run_with("e", *[900] * 200)]
    sentences, matrix = standings(runs)
    assert sentences == [str(pair) for pair in dominance(runs)]
    assert matrix is not None
    assert matrix.names == ["run", "a", "b", "d", "e"]
    assert matrix.rows == [
        ["a", "-", "better +100.0", "crosses +60.0 -40.0", "equal"],
        ["b", "worse -100.0", "-", "crosses +60.0 -40.0", "worse -100.0"],
        ["d", "crosses +40.0 -60.0", "crosses +40.0 -60.0", "-", "crosses +40.0 -60.0"],
        ["e", "equal", "better +100.0", "crosses +60.0 -40.0", "-"],
    ]


def test_a_lead_that_the_choice_of_inputs_explains_is_marked() -> None:
    runs = [run_with("a", *[900] * 10), run_with("b", 800, *[900] * 9), run_with("c", *[900] * 10)]
    _, matrix = standings(runs)
    assert matrix is not None
    assert matrix.rows[0] == ["a", "-", "better +10.0 (may be chance)", "equal"]
