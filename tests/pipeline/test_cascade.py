"""A Cascade from one file: experts, thresholds calibrated on images held out, certificates."""

import json

import pytest

import sigmax as sx
from sigmax import models
from sigmax.errors import RequestError
from sigmax.records.verify import verify
from sigmax.systems.folder import fingerprint
from sigmax.train.calibrate import CalibrateOptions
from tests.pipeline.helpers import CASCADE, Bars, Killed, contents, pipeline

ANSWERS = [f"calibration outputs of sigma-{sigma}" for sigma in (0.1, 0.2, 0.4)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cascade")
    with pytest.raises(Killed):
        pipeline(folder, CASCADE).run(Bars("calibration outputs of sigma-0.2", 2))
    found = {phase.name: phase.state for phase in pipeline(folder, CASCADE).phases()}
    assert [found[f"calibration outputs of sigma-{sigma}"] for sigma in (0.1, 0.2, 0.4)] == ["done", "to do", "to do"]
    bars = Bars()
    return folder, pipeline(folder, CASCADE).run(bars), bars.asked


def test_a_calibrated_cascade_is_certified(whole):
    folder, runs, asked = whole
    names = ["sigma-0.1", "sigma-0.2", "sigma-0.4", "cascade"]
    assert asked == [*ANSWERS[1:], "calibrate", "build cascade", *(f"certify {name}" for name in names)]
    assert [run.path.name for run in runs] == [f"{name}-skip60.jsonl" for name in names]
    assert all(verify(run.path).holds for run in runs)
    kept = json.loads((folder / "work" / "thresholds.json").read_text())
    assert len(kept["confidence"]) == 2
    assert len(kept["accuracy"]) == len(kept["envelope"]) == len(kept["ratio"]) == 3
    system = sx.load(folder / "work" / "systems" / "cascade")
    assert isinstance(system, sx.Cascade)
    assert [level.sigma for level in system.levels] == [0.4, 0.2]
    assert system.last.sigma == 0.1
    assert [level.voters["base"].model.confidence for level in system.levels] == pytest.approx(kept["confidence"])
    before = contents(folder / "work")
    assert len(pipeline(folder, CASCADE).run(Bars())) == 4
    assert contents(folder / "work") == before


def test_one_network_for_all_levels_is_kept_once(tmp_path):
    """As bfloat16: a system of three levels in the room of one network."""
    changes = ["experts.one_network=true", "experts.method=consistency", "experts.hyper={consistency=2.0}"]
    runs = pipeline(tmp_path, CASCADE, [*changes, "store=bf16"]).run(Bars())
    assert all(verify(run.path).holds for run in runs)
    work = tmp_path / "work"
    trained = models.read(work / "nets" / "experts.safetensors").description.notes["training"]["method"]
    assert (trained["name"], trained["consistency"]) == ("mixed-consistency", 2.0)
    files = list((work / "systems" / "cascade").glob("*.safetensors"))
    assert len(files) == 1
    assert files[0].stat().st_size < 0.6 * (work / "nets" / "experts.safetensors").stat().st_size
    system = sx.load(work / "systems" / "cascade")
    levels = [level.voters["base"].model for level in system.levels]
    assert {id(getattr(level, "model", level)) for level in levels} == {id(system.last.voters["base"].model)}
    assert fingerprint(system) == runs[-1].plan.system


def test_thresholds_are_of_one_request(whole, tmp_path):
    import shutil

    shutil.copytree(whole[0] / "work", tmp_path / "work")
    redone = ["calibrate", "build cascade", "certify cascade"]
    for change, expected in (
        ("calibrate.samples=10", [*ANSWERS, *redone]),
        ("calibrate.objective=least-ratio", redone),
        ("certify.seed=1", [*ANSWERS, *redone[:2], *(f"certify sigma-{s}" for s in (0.1, 0.2, 0.4)), redone[2]]),
        ("cascade.thresholds=0.6", redone),
        ("certify.alpha=0.01", [*redone[:2], *(f"certify sigma-{s}" for s in (0.1, 0.2, 0.4)), redone[2]]),
        ("certify.n0=30", [*(f"certify sigma-{s}" for s in (0.1, 0.2, 0.4)), redone[2]]),
    ):
        found = pipeline(tmp_path, CASCADE, [change]).redone()
        assert [phase.name for phase in found.phases] == expected
        assert not found.takes_long
    (tmp_path / "work" / "pipeline.json").unlink()
    shutil.rmtree(tmp_path / "work" / "runs")
    with pytest.raises(RequestError, match=r"sigma-0.1.npz holds what a network answered to another.*samples is 20"):
        pipeline(tmp_path, CASCADE, ["calibrate.samples=10"]).run(Bars())
    shutil.rmtree(tmp_path / "work" / "answers")
    with pytest.raises(RequestError, match=r"thresholds.json holds the thresholds of another request: samples is 20"):
        pipeline(tmp_path, CASCADE, ["calibrate.samples=10"]).run(Bars())
    (tmp_path / "work" / "thresholds.json").write_text("{}")
    with pytest.raises(RequestError, match=r"is damaged .*; delete it to calibrate again"):
        pipeline(tmp_path, CASCADE).run(Bars())


def test_thresholds_may_be_given(whole, tmp_path):
    import shutil

    for name in ("nets", "experts"):
        shutil.copytree(whole[0] / "work" / name, tmp_path / "work" / name)
    changes = ["calibrate=", "cascade.confidence=0.9,0", "cascade.thresholds=0.6,0.5", "certify.experts=false"]
    (run,) = pipeline(tmp_path, CASCADE, changes).run(Bars())
    assert verify(run.path).holds
    assert run.plan.rule["thresholds"] == [0.6, 0.5]
    assert [level.get("defers", False) for level in run.plan.rule["levels"]] == [True, False]


def test_certifying_the_images_of_the_choice_is_warned_of(tmp_path):
    warned = []
    pipeline(tmp_path, CASCADE, ["data.test=train"], warned.append).check()
    assert any("chooses on the same images" in warning for warning in warned)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("data.held_out=", "[calibrate] needs images that nobody was trained on: set data.held_out"),
        ("cascade.confidence=0.5", "[calibrate] chooses the confidence thresholds: leave out cascade.confidence"),
        ("calibrate=; cascade.confidence=0.5,0.5,0.5", "or one for each of the 2, largest sigma first; got"),
        ("calibrate=; cascade.confidence=1.5", "cascade.confidence: expected"),
        ("cascade.thresholds=0.4", "from 1/2 to below 1"),
        ("calibrate.published=50,40", "published: only for objective = 'least-lead'"),
        ("calibrate.objective=least-lead", "one accuracy for each of the 3 radii; got 0"),
        ("labels.n=100", "a [cascade] has no router to teach; leave out labels"),
        ("experts.bound=runner-up", "leave out experts.bound"),
        ('cascade=; experts={systems=["a", "b"]}', "a cascade needs experts that are trained here: give sigmas"),
        (
            "experts.options=[{width=4}]",
            "options must be one for all, or a list of one for each of the 3 sigmas; got 1",
        ),
        ("experts.epochs=4,4", "epochs must be one for all, or a list of one for each of the 3 sigmas; got 2"),
        ("experts.epochs=4,0,4", "pipe.toml: experts.epochs.1: expected a number of at least 1, got 0"),
        ('experts.start=["", ""]', "start must be one for all, or a list of one for each of the 3 sigmas; got 2"),
        ("experts.one_network=true; experts.epochs=4,4,4", "one network for all sigmas; give one epochs, not a list"),
        ("cascade=; data.held_out=0", "[calibrate] needs images that nobody was trained on: set data.held_out"),
    ],
)
def test_an_impossible_cascade_is_refused(tmp_path, change, message):
    with pytest.raises(RequestError) as refused:
        pipeline(tmp_path, CASCADE, change.split("; "))
    assert message in str(refused.value)


def test_a_file_that_names_no_system_builds_a_calibrated_cascade(whole, tmp_path):
    """As if [cascade], [calibrate] and data.held_out = 0.1 were in it: nothing is redone."""
    text = CASCADE.replace("[cascade]\n", "").replace("held_out = 0.1\n", "")
    (tmp_path / "work").symlink_to(whole[0] / "work")
    assert {phase.state for phase in pipeline(tmp_path, text).phases()} == {"done"}
    assert not pipeline(tmp_path, text).redone()
    bare = pipeline(tmp_path, CASCADE, ["cascade=", "calibrate=", "data.held_out="]).config
    assert (bare.data.held_out, bare.calibrate, bare.router) == (0.1, CalibrateOptions(), None)
    assert pipeline(tmp_path, text, ["data.held_out=0.2"]).config.data.held_out == 0.2


def test_a_router_may_join_the_cascade(whole, tmp_path):
    """The same experts serve both; the cascade stays as it is."""
    import shutil

    shutil.copytree(whole[0] / "work", tmp_path / "work")
    before = contents(tmp_path / "work")
    router = ["router.sigma=0.4", "router.options.width=4", "router.training.epochs=3"]
    router += ["labels.fraction=0.05", "labels.n=50"]
    bars = Bars()
    runs = pipeline(tmp_path, CASCADE, router).run(bars)
    added = [f"{verb} dual-{rule}" for verb in ("build", "certify") for rule in ("min", "consensus")]
    assert bars.asked == ["make labels-1", "train router-1", *added]
    assert [run.plan.rule["scheme"] for run in runs] == ["smoothed"] * 3 + ["dual"] * 2 + ["cascade"]
    after = contents(tmp_path / "work")
    before.pop("pipeline.json")
    assert before.items() <= after.items()
    assert not pipeline(tmp_path, CASCADE).redone(), "nor does it change when the router leaves"


LISTS = [
    "experts.options=[{width=4}, {width=4}, {width=8}]",
    "experts.epochs=4,4,2",
    'experts.method=["gaussian", "gaussian", "consistency"]',
    "experts.hyper=[{}, {}, {consistency=2.0}]",
]


def test_every_expert_may_have_its_own_network_epochs_method_and_start(whole, tmp_path):
    """The third is trained as it is asked."""
    import shutil

    shutil.copytree(whole[0] / "work", tmp_path / "work")
    begun = whole[0] / "work" / "nets" / "sigma-0.4.safetensors"
    start = f'experts.start=["", "", "{tmp_path / "wide.safetensors"}"]'
    wide = pipeline(tmp_path, CASCADE, [*LISTS, "out=wide"])
    next(phase for phase in wide.phases() if phase.name == "train sigma-0.4").work(lambda *_: None)
    (tmp_path / "wide" / "nets" / "sigma-0.4.safetensors").rename(tmp_path / "wide.safetensors")
    asked = pipeline(tmp_path, CASCADE, [*LISTS, start])
    found = {phase.name for phase in asked.redone().phases}
    assert {"train sigma-0.4", "calibration outputs of sigma-0.4", "build cascade", "certify cascade"} <= found
    asked.run(Bars(), redo=True)
    nets = {s: models.read(tmp_path / "work" / "nets" / f"sigma-{s}.safetensors").description for s in (0.1, 0.2, 0.4)}
    assert [net.options["width"] for net in nets.values()] == [4, 4, 8]
    training = nets[0.4].notes["training"]
    assert training["settings"]["epochs"] == 2
    assert (training["method"]["name"], training["method"]["consistency"]) == ("consistency", 2.0)
    assert training["start"] == models.fingerprint(tmp_path / "wide.safetensors")
    assert models.fingerprint(begun) != training["start"]
