"""`sigmax compare`: several schemes on the same inputs, one table and one figure."""

import json

import pandas as pd
import pytest

from sigmax.records.lines import decode, encode

CONFIG = """
out = "{out}"
network = "{net}"
radii = [0.0, 0.25]

[data]
source = "digits"
max = 5

[certify]
n0 = 20
n = 300

[schemes.constant]
kind = "smoothed"
sigma = 0.5

[schemes.cascade]
kind = "multiscale"
sigmas = [0.25, 0.5]
thresholds = [0.5]

[schemes.elastic]
kind = "semi-elastic"
base = 0.5
rate = 0.01
k = 5
offset = 2.0
points = 200

[schemes.memory]
kind = "memorized"
sigma0 = 0.5
steps = 3

[schemes.folder]
kind = "system"
folder = "{system}"
"""


def written(path, trained, **changes):
    found = {"out": path / "compared", "net": trained / "net.safetensors", "system": trained / "system", **changes}
    (path / "schemes.toml").write_text(CONFIG.format(**found))
    return path / "schemes.toml"


def test_compare_makes_one_table_and_one_figure(trained, tmp_path, sigmax):
    config = written(tmp_path, trained)
    done = sigmax("compare", config)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "compared"
    frame = pd.read_csv(out / "compare.csv").set_index("scheme")
    assert list(frame.index) == ["constant", "cascade", "elastic", "memory", "folder"]
    assert frame.loc["constant", "assumes"] == frame.loc["folder", "assumes"] == "nothing more"
    assert frame.loc["memory", "assumes"] != "nothing more"
    assert {"0", "0.25", "ACR", "samples", "seconds"} <= set(frame.columns)
    assert (frame["samples"] >= 320).all()
    assert frame.loc["constant", "0"] == frame.loc["folder", "0"], "the same network under the same noise"
    found = {row["scheme"]: row for row in json.loads((out / "compare.json").read_text())}
    assert list(found) == list(frame.index)
    assert all(row["0.25"] == frame.loc[name, "0.25"] for name, row in found.items())
    assert found["elastic"]["rule"]["field"]["points"] == 200
    assert {row["arithmetic"] for row in found.values()} == {"cpu float32"}
    page = (out / "compare.md").read_text()
    assert frame.loc["memory", "assumes"] in page
    for kind in ("png", "pdf"):
        assert (out / f"compare.{kind}").stat().st_size > 1_000
    runs = {path.stem: path.read_bytes() for path in out.glob("*.jsonl")}
    assert set(runs) == set(frame.index)
    assert sigmax("compare", config).returncode == 0
    assert {path.stem: path.read_bytes() for path in out.glob("*.jsonl")} == runs, "what is done is not done again"


def test_a_run_that_does_not_verify_is_in_no_table(trained, tmp_path, sigmax):
    config, out = written(tmp_path, trained), tmp_path / "compared"
    assert sigmax("compare", config).returncode == 0
    (out / "compare.md").unlink()
    path = out / "constant.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    number = next(i for i, line in enumerate(lines) if decode(line).get("radius", 0) > 0)
    lines[number] = encode({**decode(lines[number]), "radius": 9.0})
    path.write_bytes(b"".join(lines))
    done = sigmax("compare", config)
    assert done.returncode == 1
    assert "does not verify" in done.stderr
    assert "No table was written" in done.stderr
    assert not (out / "compare.md").exists()


def test_a_dry_run_checks_all_and_writes_nothing(trained, tmp_path, sigmax):
    config, out = written(tmp_path, trained), tmp_path / "compared"
    done = sigmax("compare", config, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "0 of 5 schemes are done" in done.stdout
    assert not out.exists()
    wrong = sigmax("compare", config, "--dry-run", *setting("certify.n=2"))
    assert wrong.returncode == 2
    assert "schemes.constant: " in wrong.stderr


def test_the_file_of_another_plan_is_refused_before_any_work(trained, tmp_path, sigmax):
    config, out = written(tmp_path, trained), tmp_path / "compared"
    assert sigmax("compare", config).returncode == 0
    before = (out / "folder.jsonl").read_bytes()  # the last of the schemes
    for path in out.glob("*.jsonl"):
        if path.stem != "folder":
            path.unlink()
    found = sigmax("compare", config, "--dry-run")
    assert "1 of 5 schemes are done" in found.stdout
    for words in (["--dry-run"], []):
        refused = sigmax("compare", config, *words, *setting("certify.n=400"))
        assert refused.returncode == 2
        assert "schemes.folder: " in refused.stderr
        assert "holds a run of another plan: n is 300 there and 400 here" in " ".join(refused.stderr.split())
        assert [path.name for path in out.glob("*.jsonl")] == ["folder.jsonl"]
    assert (out / "folder.jsonl").read_bytes() == before
    (out / "folder.jsonl").write_bytes(before.replace(b'"radius":', b'"radius":1', 1))  # damaged beyond its head
    for words in (["--dry-run"], []):
        refused = sigmax("compare", config, *words)
        assert refused.returncode == 2
        assert "sigmax verify" in refused.stderr
        assert [path.name for path in out.glob("*.jsonl")] == ["folder.jsonl"]
    (out / "constant.jsonl").mkdir()
    assert "not a regular file" in sigmax("compare", config).stderr
    (out / "constant.jsonl").rmdir()
    (out / "constant.jsonl").write_text("somebody's notes")
    refused = sigmax("compare", config)
    assert refused.returncode == 2
    assert "is not a run file" in refused.stderr
    assert (out / "constant.jsonl").read_text() == "somebody's notes"
    refused = sigmax("compare", config, "--dry-run", *setting(f"out='{out / 'constant.jsonl'}'"))
    assert refused.returncode == 2
    assert "is no folder" in refused.stderr


def test_wrong_radii_are_refused_before_any_work(trained, tmp_path, sigmax):
    done = sigmax("compare", written(tmp_path, trained), "--set", "radii=[-1.0]")
    assert done.returncode == 2
    assert not list((tmp_path / "compared").glob("*.jsonl"))


def of_all(out):
    """The rows of compare.json by scheme."""
    return {row["scheme"]: row for row in json.loads((out / "compare.json").read_text())}


ADAPTIVE = ["certify.sampling=adaptive", "certify.targets=[0.0, 0.25]"]


def setting(*changes):
    return [word for change in changes for word in ("--set", change)]


def test_adaptive_sampling_stops_early_in_every_scheme_that_may(trained, tmp_path, sigmax):
    config = written(tmp_path, trained)
    done = sigmax("compare", config, *setting(*ADAPTIVE, "schemes.elastic.sampling=fixed", "radii=[0.25, 0.5]"))
    assert done.returncode == 0, done.stderr
    rows = of_all(tmp_path / "compared")
    kinds = {name: row["sampling"]["kind"] for name, row in rows.items()}
    assert kinds == {**dict.fromkeys(rows, "adaptive"), "elastic": "fixed"}
    assert rows["elastic"]["samples"] >= 320
    assert all(row["samples"] < 320 for name, row in rows.items() if name not in ("elastic", "cascade"))
    assert rows["constant"]["0.5"] is None, "nothing was asked beyond 0.25"
    assert rows["elastic"]["0.5"] is not None
    page = (tmp_path / "compared" / "compare.md").read_text()
    assert "the runs were not asked the same" in page


def test_arithmetic_is_the_files_and_recorded(trained, tmp_path, sigmax):
    config = written(tmp_path, trained)
    done = sigmax("compare", config, *setting("certify.dtype=bf16", "certify.batch=64", "data.max=2"))
    assert done.returncode == 0, done.stderr
    assert {row["arithmetic"] for row in of_all(tmp_path / "compared").values()} == {"cpu bfloat16"}


def test_paths_begin_at_the_files_folder_and_networks_may_have_names(trained, tmp_path, sigmax):
    (tmp_path / "below").mkdir()
    for name in ("one", "two"):
        (tmp_path / "below" / f"{name}.safetensors").write_bytes((trained / "net.safetensors").read_bytes())
    config = tmp_path / "below" / "schemes.toml"
    config.write_text("""
out = "../compared"

[networks]
first = "one.safetensors"

[data]
source = "digits"
max = 2

[certify]
n = 100

[schemes.cascade]
kind = "multiscale"
sigmas = [0.25, 0.5]
networks = ["first", "two.safetensors"]

[schemes."constant-0.5"]
kind = "smoothed"
network = "first"
sigma = 0.5
""")
    done = sigmax("compare", config)
    assert done.returncode == 0, done.stderr
    assert list(of_all(tmp_path / "compared")) == ["cascade", "constant-0.5"]
    assert (tmp_path / "compared" / "constant-0.5.jsonl").is_file()


def test_schemes_share_their_networks(trained, tmp_path):
    from sigmax.pipeline.compare.config import CompareConfig
    from sigmax.pipeline.compare.schemes import made_schemes

    schemes = made_schemes(CompareConfig.read(written(tmp_path, trained)))
    models = {id(voter.model) for scheme in schemes.values() for voter in scheme.voters.values()}
    assert len(models) == 1, "that of the system's folder, too"


def test_a_compiled_network_is_warmed_up_before_the_clock_runs(trained, monkeypatch):
    import sigmax as sx
    from sigmax.engine import compilation as ways
    from sigmax.pipeline.compare import schemes as compare_schemes

    ran = []

    def counted(model, mode):
        return model if mode == "off" else lambda x: ran.append(len(x)) or model(x)

    monkeypatch.setattr(ways, "compiled", counted)
    found = {"sigma0": 0.5, "classes": 10, "steps": 2, "batch": 32}
    model, _ = sx.models.load(trained / "net.safetensors")
    x = sx.data.load("digits").pixels([0])
    for how, expected in (("off", False), ("default", True)):
        scheme = sx.Memorized(model, compile=how, **found)
        scheme.check(x)
        ran.clear()  # the trial runs the network too
        compare_schemes.warm_up(scheme, x)
        assert bool(ran) is expected
        assert scheme.memory is None, "nothing is remembered of it"
    assert set(ran) == {32}, "in the batches that it will see"


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('kind = "smoothed"', 'kind = "magic"', "schemes.constant.kind: expected one of 'smoothed', 'multiscale'"),
        ("sigma = 0.5", "sigmo = 0.5", "did you mean sigma"),
        ("sigma = 0.5", "", "schemes.constant.sigma is missing"),
        ("n = 300", "n = 5", "can never certify"),
        ('source = "digits"', "", "source"),
        ('out = "', 'aut = "', "did you mean out"),
        ("[data]", "[data", "is not TOML"),
        ('kind = "system"', 'kind = "smoothed"', "schemes.folder"),
        ("n = 300", 'n = 300\ndtype = "fp64"', "certify.dtype: expected 'fp32', 'bf16' or 'fp16', got 'fp64'"),
        ("n = 300", 'n = 300\ncompile = "yes"', "certify.compile: expected 'off', 'default'"),
        ("n = 300", "n = 300\ntargets = [0.5]", "certify: targets and tolerance say when sampling may stop"),
        ("n = 300", 'n = 300\nsampling = "adaptive"\ntargets = [9.0]', "none of the targets can be reached"),
        ("n = 300", "n = 300\nbatch = 0", "certify.batch: expected a number of at least 1"),
        ("steps = 3", 'sampling = "some"', "schemes.memory.sampling: expected 'fixed' or 'adaptive', got 'some'"),
        ("thresholds = [0.5]", "networks = []", "schemes.cascade.networks: expected a list of at least 1"),
        ("thresholds = [0.5]", 'networks = ["a"]\nnetwork = "b"', "schemes.cascade: give network, for all sigmas"),
        ("points = 200", "points = 0", "schemes.elastic.points: expected a number of at least 1"),
        ("[schemes.memory]", '[schemes."me/mory"]', "use one without slashes"),
        ("[data]", "device = 'nowhere'\n[data]", "device 'nowhere' cannot be used here"),
        ("{net}", "absent", "there is no checkpoint"),
    ],
)
def test_a_comparison_that_will_not_do_is_refused_before_any_work(old, new, named, trained, tmp_path, sigmax):
    config = written(tmp_path, trained)
    old = old.format(net=trained / "net.safetensors")
    config.write_text(config.read_text().replace(old, new, 1))
    refused = sigmax("compare", config)
    assert refused.returncode == 2, refused.stdout
    assert named in refused.stderr
    assert not (tmp_path / "compared").exists()
