"""Every quirk of published logs, each in a log of its own."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sigmax import RequestError
from sigmax.records.logs.table import LogTable, read_table

HEADER = "idx\tlabel\tpredict\tradius\tcorrect\ttime"
ROWS = ("0\t3\t3\t0.378\t1\t15.4", "20\t7\t-1\t0.0\t0\t15.6", "40\t4\t5\t0.341\t0\t15.7")

Reader = Callable[..., LogTable]


@pytest.fixture
def table(tmp_path: Path) -> Reader:
    """Reads a log made of these lines."""

    def reader(*lines: str, end: str = "\n", newline: str = "\n") -> LogTable:
        path = tmp_path / "log"
        path.write_bytes((newline.join(lines) + end).encode())
        return read_table(path)

    return reader


def test_a_plain_log(table: Reader) -> None:
    log = table(HEADER, *ROWS)
    first, second, third = log.rows
    assert (first.index, first.label, first.predicted, first.radius, first.printed) == (0, 3, 3, 0.378, "0.378")
    assert (first.line, first.correct, first.seconds, first.right) == (2, 1, 15.4, True)
    assert (second.predicted, second.radius, second.right) == (None, 0.0, False)
    assert (third.predicted, third.right) == (5, False)
    assert (log.torn, log.trailer, log.headers) == (None, (), 1)
    assert first.sigma is first.stage is first.samples is None


def test_columns_are_found_by_name_in_any_order_and_padding(table: Reader) -> None:
    log = table("time \t Radius\tlabel\tsomething\t predict\tidx", "15.4\t0.378\t3\tx\t 3 \t0")
    row = log.rows[0]
    assert (row.index, row.label, row.predicted, row.radius, row.seconds) == (0, 3, 3, 0.378, 15.4)
    assert row.correct is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15.4", 15.4),
        ("8", 8.0),
        ("0:00:08.521722", 8.521722),
        ("0:02:31", 151.0),
        ("12:00:00", 43200.0),
        ("1 day, 0:00:01", 86401.0),
        ("2 days, 1:00:00.5", 176400.5),
    ],
)
def test_time_in_seconds_or_as_a_timedelta(table: Reader, text: str, seconds: float) -> None:
    assert table(HEADER, f"0\t3\t3\t0.378\t1\t{text}").rows[0].seconds == seconds


def test_without_a_time_column_no_time_is_known(table: Reader) -> None:
    assert table("idx\tlabel\tpredict\tradius", "0\t3\t3\t0.378").rows[0].seconds == 0.0


def test_a_cascade(table: Reader) -> None:
    log = table(
        "idx\tlabel\tpredict\tradius\tr_neg\tcorrect\tpred_uc\tcorr_uc\tstage\ttime",
        "0\t3\t3\t0.378\t-1e+02\t1\t3\t1\t0\t0:00:20.1",
        "1\t8\t-2\t0.0\t-1e+02\t0\t8\t1\t1\t0:00:20.1",
        "2\t8\t-1\t0.0\t-1e+02\t0\t8\t1\t2\t0:00:20.1",
    )
    assert [row.predicted for row in log.rows] == [3, None, None]
    assert [row.stage for row in log.rows] == [0, 1, 2]


def test_data_dependent_sigma(table: Reader) -> None:
    log = table("idx\tlabel\tpredict\tradius\tcorrect\tsigma\ttime", "0\t3\t3\t0.378\t1\t0.237\t0:00:15")
    assert log.rows[0].sigma == "0.237"


def test_input_specific_samples_with_a_summary_after_the_table(table: Reader) -> None:
    log = table(
        "idx\tlabel\tpredict\tpA\tsamplesize\tradius\tcorrect\ttime_forward",
        "0\t3\t3\t0.951\t20000\t0.413\t1\t1.234",
        "1\t3\t-1\t0.448\t0\t0.000\t0\t0.123",
        "===Certification Summary(absolute)===",
        "image number=2, total time=3.1, average radius=0.207",
        "Radius: 0.0  Number: 1  Acc: 50.0%",
    )
    assert [row.samples for row in log.rows] == [20000, 0]
    assert log.rows[0].seconds == 1.234
    assert [line.number for line in log.trailer] == [4, 5, 6]
    assert log.torn is None


def test_blank_lines_carriage_returns_and_a_byte_order_mark(table: Reader) -> None:
    log = table("\ufeff" + HEADER, "", *ROWS, "  ", "", newline="\r\n", end="\r\n")
    assert len(log.rows) == 3
    assert log.rows[0].line == 3


def test_trailing_tabs_are_no_columns(table: Reader) -> None:
    assert len(table(HEADER, ROWS[0] + "\t", ROWS[1] + "\t\t").rows) == 2


def test_a_second_header_of_a_job_started_again(table: Reader) -> None:
    log = table(HEADER, ROWS[0], HEADER, *ROWS[1:])
    assert (len(log.rows), log.headers) == (3, 2)


@pytest.mark.parametrize("torn", ["60", "60\t4", "60\t4\t4\t0.3", "60\t4\t4\t0.341\t1\t", "60\t4\t4\t0.341\t1\t0:0"])
def test_a_last_row_cut_short_is_left_out_and_kept_for_the_report(table: Reader, torn: str) -> None:
    log = table(HEADER, *ROWS, torn, end="")
    assert len(log.rows) == 3
    assert log.torn is not None
    assert (log.torn.number, log.torn.text) == (5, torn)


def test_a_last_row_that_is_whole_but_wrong_is_an_error(table: Reader) -> None:
    with pytest.raises(RequestError, match="line 5 cannot be read: label must be a whole number, got 'cat'"):
        table(HEADER, *ROWS, "60\tcat\t4\t0.341\t1\t1.0")


def test_correct_may_be_spelled_out_or_be_a_running_total(table: Reader) -> None:
    log = table(HEADER, "0\t3\t3\t0.3\tTrue\t1", "1\t3\t3\t0.3\tFalse\t1", "2\t3\t3\t0.3\t417\t1")
    assert [row.correct for row in log.rows] == [1, 0, 417]


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ("20\t7\t-1", "expected 6 cells, got 3"),
        ("20\t7\t-1\t0.0\t0\t15.6\t9", "expected 6 cells, got 7"),
        ("20\tcat\t-1\t0.0\t0\t15.6", "label must be a whole number, got 'cat'"),
        ("20\t-7\t-1\t0.0\t0\t15.6", "label must not be negative"),
        ("20\t7\t-3\t0.0\t0\t15.6", "-1 or -2 for an abstention, got -3"),
        ("20\t7\t1\tfar\t0\t15.6", "radius must be a number, got 'far'"),
        ("20\t7\t1\t0.1\t0\tlong", "time must be a number, got 'long'"),
        ("20\t7\t1\t0.1\t0\tnan", "time must be finite"),
        ("20\t7\t1\t0.1\t?\t15.6", "correct must be a whole number"),
        ("Killed", "expected 6 cells, got 1"),
    ],
)
def test_an_unreadable_line_inside_the_table_is_named(table: Reader, bad: str, problem: str) -> None:
    with pytest.raises(RequestError, match="line 3 cannot be read") as caught:
        table(HEADER, ROWS[0], bad, ROWS[2])
    assert problem in str(caught.value)
    assert repr(bad) in str(caught.value)


def test_a_bad_row_before_a_summary_is_not_part_of_the_summary(table: Reader) -> None:
    with pytest.raises(RequestError, match="line 3 cannot be read"):
        table(HEADER, ROWS[0], "20\t7\tx\t0.0\t0\t15.6", "=== Summary ===")


@pytest.mark.parametrize("sigma", ["0", "-0.5", "inf", "nan"])
def test_a_sigma_column_must_hold_noise_levels(table: Reader, sigma: str) -> None:
    header = "idx\tlabel\tpredict\tradius\tsigma"
    with pytest.raises(RequestError, match="sigma must be a positive number"):
        table(header, f"0\t3\t3\t0.378\t{sigma}", "1\t3\t3\t0.378\t0.5")


def test_missing_columns_are_named_with_what_stands_there(table: Reader) -> None:
    with pytest.raises(RequestError, match=r"no column label, radius: expected .* idx label predict radius .*'idx"):
        table("idx\tpredict\ttime", "0\t3\t1.0")


@pytest.mark.parametrize("lines", [(), ("",), ("0.5,0.4317",)])
def test_a_file_that_is_no_log(table: Reader, lines: tuple[str, ...]) -> None:
    with pytest.raises(RequestError, match="has no column idx, label, predict, radius"):
        table(*lines)


def test_a_column_that_stands_twice(table: Reader) -> None:
    with pytest.raises(RequestError, match="more than one column radius"):
        table("idx\tlabel\tpredict\tradius\tradius", "0\t3\t3\t0.378\t0.4")


def test_a_header_without_rows(table: Reader) -> None:
    with pytest.raises(RequestError, match="no rows"):
        table(HEADER)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="No such file"):
        read_table(tmp_path / "missing")
    with pytest.raises(RequestError, match="directory"):
        read_table(tmp_path)
    (tmp_path / "binary").write_bytes(b"\x80\x81\xff")
    with pytest.raises(RequestError, match="not text"):
        read_table(tmp_path / "binary")
