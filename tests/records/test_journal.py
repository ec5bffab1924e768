"""The journal: whole lines, resume, lock, and refusal with nothing lost."""

import gzip
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import sigmax as sx
from sigmax.records.journal import Journal, write_all
from sigmax.records.lines import Record, decode, encode
from tests.records.helpers import plan, records


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.jsonl"


def test_a_run_comes_back_as_it_was_written(path):
    write_all(path, plan(), records())
    run = sx.read(path)
    assert run.plan == plan()
    assert list(run.records) == records()
    assert run.finished
    assert repr(run) == f"Run({path}: {run.plan.method}, {len(run.records)} of {run.planned} inputs)"
    zipped = path.with_suffix(".jsonl.gz")
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    assert replace(sx.read(zipped), path=path) == run


def test_the_frame_has_the_columns_of_the_contract(path):
    write_all(path, plan(), records())
    frame = sx.read(path).frame()
    columns = "index label predicted radius correct outcome sigma samples seconds limited_by"
    assert list(frame.columns) == columns.split()
    assert frame["index"].tolist() == [0, 2, 4, 6, 8]
    assert frame["predicted"].tolist() == [-1, 0, 0, 0, 0]
    assert frame["radius"].tolist() == [r.certificate.radius for r in records()]
    assert frame["correct"].tolist() == [False, False, False, True, False]
    assert frame["outcome"].tolist()[:2] == ["no_majority", "certified"]
    assert set(frame["sigma"]) == {0.5}
    assert set(frame["samples"]) == {1100}
    write_all(path.with_name("other.jsonl"), plan(), records()[::-1])  # as it may come about on a GPU
    assert sx.read(path.with_name("other.jsonl")).frame().equals(frame)


@pytest.mark.parametrize("kept", range(6))
def test_a_cut_run_goes_on_where_it_ended(path, kept):
    with Journal(path, plan()) as journal:
        for record in records()[:kept]:
            journal.write(record)
    assert not sx.read(path).finished
    with Journal(path, plan()) as journal:
        assert list(journal.records.values()) == records()[:kept]
        for record in records()[kept:]:
            journal.write(record)
        journal.finish()
    whole = path.with_name("whole.jsonl")
    write_all(whole, plan(), records())
    assert path.read_bytes() == whole.read_bytes()


def test_a_torn_last_line_is_dropped_wherever_it_was_torn(path):
    write_all(path, plan(), records())
    content = path.read_bytes()
    lines = content.splitlines(keepends=True)
    for size in range(len(lines[0]), len(content), 9):
        path.write_bytes(content[:size])
        kept = content[:size].count(b"\n")
        assert len(sx.read(path).records) == min(kept - 1, 5)
        with Journal(path, plan()) as journal:
            assert len(journal.records) == min(kept - 1, 5)
        assert path.read_bytes() == b"".join(lines[:kept])


def test_a_run_killed_while_the_plan_was_written_starts_again(path):
    first = encode(plan().to_json())
    for size in (0, 1, 5, len(first) - 1):
        path.write_bytes(first[:size])
        with Journal(path, plan()) as journal:
            assert not journal.records
        assert path.read_bytes() == first


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"n": 2_000}, "n is 1000 there and 2000 here"),
        ({"alpha": 0.01}, "alpha is 0.001 there and 0.01 here"),
        ({"seed": 1}, "seed is 0 there and 1 here"),
        ({"system": "t" * 32}, "here (the model's weights or its settings)"),
        (
            {"data": {**plan().data, "fingerprint": "t" * 32}},
            "changed, or their size or split is another). Repeat the options it was written with, on the images as "
            "they were then, to continue it",
        ),
        ({"rule": {**plan().rule, "sigma": 0.25}}, "rule.sigma is 0.5 there and 0.25 here"),
        ({"inputs": {"start": 0, "skip": 1, "count": 5}}, "inputs.skip is 2 there and 1 here"),
        ({"arithmetic": "cuda bfloat16"}, "arithmetic is 'cpu float32' there and 'cuda bfloat16' here"),
    ],
)
def test_another_plan_is_refused_and_the_difference_named(path, change, named):
    write_all(path, plan(), records())
    path.write_bytes(path.read_bytes() + b'{"kind":"rec')  # torn, and not for this plan to cut off
    before = path.read_bytes()
    with pytest.raises(sx.RequestError, match="another plan") as refusal:
        Journal(path, plan(**change))
    assert named in str(refusal.value)
    assert path.read_bytes() == before


def test_a_finished_run_is_not_written_again(path):
    write_all(path, plan(), records())
    before = path.stat().st_mtime_ns
    with Journal(path, plan()) as journal:
        assert journal.finished
    assert path.stat().st_mtime_ns == before


def test_versions_and_batch_size_are_not_part_of_the_plan(path):
    write_all(path, plan(), records())
    with Journal(path, plan(made_with={"sigmax": "9.9", "batch": {"base": 7}})) as journal:
        assert journal.finished


@pytest.mark.parametrize(
    "content",
    [b'{"kind":"plan","title":"my plan"}', b"idx\tlabel\n0\t1\n", b"precious notes", b"\xff\xfe\n", b"{}\n"],
)
def test_a_file_that_is_no_run_is_left_alone(path, content):
    path.write_bytes(content)
    with pytest.raises(sx.RequestError, match=r"run\.jsonl"):
        Journal(path, plan())
    assert path.read_bytes() == content


def test_damage_in_the_middle_is_refused_with_its_line(path):
    write_all(path, plan(), records())
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], lines[2].replace(b"620", b"621"), *lines[3:]]))
    for attempt in (lambda: Journal(path, plan()), lambda: sx.read(path)):
        with pytest.raises(sx.RequestError, match="line 3: the line was altered"):
            attempt()


def test_runs_that_repeat_or_lack_records_are_not_read(path):
    write_all(path, plan(), records())
    lines = path.read_bytes().splitlines(keepends=True)
    for damaged in ([*lines[:3], lines[2], *lines[3:]], [*lines[:3], *lines[4:]], [*lines, lines[-1]]):
        path.write_bytes(b"".join(damaged))
        for attempt in (lambda: sx.read(path), lambda: Journal(path, plan())):
            with pytest.raises(sx.RequestError, match="recorded twice|the file holds 4|after the end line"):
                attempt()


@pytest.mark.parametrize("fate", ["moved", "deleted", "replaced"])
def test_a_run_file_that_is_taken_away_ends_the_run(path, fate):
    journal = Journal(path, plan())
    for record in records():
        journal.write(record)
    if fate == "deleted":
        path.unlink()
    else:
        path.rename(path.with_name("elsewhere.jsonl"))
    if fate == "replaced":
        write_all(path.with_name("other.jsonl"), plan(), records())
        path.with_name("other.jsonl").rename(path)
    with pytest.raises(sx.RunError, match="moved or deleted"):
        journal.finish()
    journal.close()


def test_a_second_writer_is_refused_also_from_another_process(path):
    with Journal(path, plan()) as journal:
        journal.write(records()[0])
        with pytest.raises(sx.RequestError, match="another process is writing"):
            Journal(path, plan())
        script = (
            "import sys; from pathlib import Path; from sigmax.records.journal import Journal\n"
            "from tests.records.helpers import plan\n"
            f"Journal(Path({str(path)!r}), plan())"
        )
        root = Path(__file__).parents[2]
        child = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=False)
        assert "another process is writing" in child.stderr
    Journal(path, plan()).close()
    assert [each.name for each in path.parent.iterdir()] == [path.name], "the lock is gone with its holder"


def test_a_writer_is_locked_out_where_there_is_no_fcntl(path):
    script = (
        "import sys; sys.modules['fcntl'] = None\n"
        "from pathlib import Path; from sigmax.records.journal import Journal\n"
        "from tests.records.helpers import plan, records\n"
        f"path = Path({str(path)!r})\n"
        "with Journal(path, plan()) as journal:\n"
        "    journal.write(records()[0])\n"
        "    try:\n"
        "        Journal(path, plan())\n"
        "    except ValueError as error:\n"
        "        print(error)\n"
    )
    root = Path(__file__).parents[2]
    child = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True)
    assert "another process is writing" in child.stdout
    assert len(sx.read(path).records) == 1
    Journal(path, plan()).close()
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_writer_that_was_killed_locks_nobody_out(path):
    script = (
        "import os; from pathlib import Path; from sigmax.records.journal import Journal\n"
        "from tests.records.helpers import plan, records\n"
        f"journal = Journal(Path({str(path)!r}), plan()); journal.write(records()[0]); os._exit(9)"
    )
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", script], cwd=root, check=False).returncode == 9
    with Journal(path, plan()) as journal:
        assert len(journal.records) == 1


def test_a_file_of_format_1_is_refused_in_one_sentence(path):
    old = {**plan().to_json(), "format": 1}
    path.write_bytes(encode(old))
    expected = "the run file has format 1; this version reads format 2, so certify again"
    for attempt in (lambda: Journal(path, plan()), lambda: sx.read(path), lambda: sx.verify(path)):
        with pytest.raises(sx.RequestError, match=expected):
            attempt()


def test_unwritable_places_are_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(sx.RequestError, match="choose a folder you may write to"):
        Journal(tmp_path / "file" / "run.jsonl", plan())
    with pytest.raises(sx.RequestError, match="cannot write the run file"):
        Journal(tmp_path, plan())
    with pytest.raises(sx.RequestError, match="not a regular file"):
        Journal(Path("/dev/null"), plan())
    with pytest.raises(sx.RequestError, match="written plain"):
        Journal(tmp_path / "run.jsonl.gz", plan())


def test_missing_and_foreign_files_cannot_be_read(tmp_path):
    with pytest.raises(sx.RequestError, match="cannot read the run file"):
        sx.read(tmp_path / "absent.jsonl")
    (tmp_path / "other.jsonl").write_text("{}\n")
    with pytest.raises(sx.RequestError, match="line 1: the line does not end in a checksum"):
        sx.read(tmp_path / "other.jsonl")
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(sx.RequestError, match="holds no whole line"):
        sx.read(tmp_path / "empty.jsonl")


def test_every_flipped_character_is_noticed():
    line = encode(records()[1].to_json())
    assert Record.from_json(decode(line)) == records()[1]
    for position in range(len(line) - 1):
        flipped = bytearray(line)
        flipped[position] ^= 1
        with pytest.raises(sx.RequestError):
            Record.from_json(decode(bytes(flipped)))
