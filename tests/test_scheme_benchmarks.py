"""The benchmarks of memory, field, records, rounds and pictures run, on few and small images, and write figures."""

import json

import sigmax as sx
from benchmarks import field, memory, pictures, records, rounds
from sigmax import models


def test_memory_on_digits(tmp_path, capsys):
    memory.main(["--data", "digits", "--radii", "0.5", "2", "--lookups", "20", "--out", str(tmp_path / "m.json")])
    small, large = json.loads((tmp_path / "m.json").read_text())["rows"]
    assert small["balls"] == large["balls"] > 300
    assert small["shrunk"] < large["shrunk"]
    assert 0 < small["look_up"]["median_ms"] <= small["look_up"]["p95_ms"]
    assert capsys.readouterr().out.count("balls of radii") == 2


def test_field_on_digits(tmp_path, capsys):
    field.main(["--data", "digits", "--offset", "1.5", "--out", str(tmp_path / "f.json")])
    row = json.loads((tmp_path / "f.json").read_text())
    assert (row["points"], row["inputs"]) == (1437, 18)
    assert 0.2 < row["sigma"]["0"] <= row["sigma"]["1"] < 0.3
    assert "18 inputs against 1,437 points" in capsys.readouterr().out


def test_records_of_many_classes(tmp_path, capsys):
    records.main(["--classes", "50", "--inputs", "20", "--out", str(tmp_path / "r.json")])
    runs = json.loads((tmp_path / "r.json").read_text())["runs"]
    assert 300 < runs["constant"]["bytes_per_record"] < runs["cascade"]["bytes_per_record"] < 10_000
    assert all(0 < run["certified"] <= 1 for run in runs.values())
    assert "| cascade |" in capsys.readouterr().out


def test_rounds_of_recorded_votes(tmp_path, capsys):
    rounds.main(["--inputs", "8", "--only", "radius 0.5", "--out", str(tmp_path / "r.json")])
    found = json.loads((tmp_path / "r.json").read_text())["rows"]
    assert [row["scheme"] for row in found] == ["sigma 0.86", "sigma 0.52", "sigma 0.33", "cascade"]
    for row in found:
        assert row["ahead"]["samples"] == row["padded"]["samples"]
        assert row["ahead"]["rounds"] < row["padded"]["rounds"]
        assert row["ahead"]["samples"] <= row["ahead"]["rows"] < row["padded"]["rows"]
    assert capsys.readouterr().out.count("rows of use") == 4


def test_pictures_on_a_small_one(tmp_path, capsys):
    pictures.main(["--side", "32", "--n", "40"])
    assert capsys.readouterr().out.count("| 40 |") == 2
    network = models.create(models.Description(architecture="small-cnn", classes=10, input_shape=(1, 8, 8)))
    sx.Multiscale(network, sigmas=(0.1, 0.2), classes=10).save(tmp_path / "system")
    pictures.main(["--system", str(tmp_path / "system"), "--data", "digits", "--n", "40"])
    assert "| bf16 |" in capsys.readouterr().out
