"""A Dual from one file: once through, cut anywhere, repeated, extended, changed."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import sigmax as sx
from sigmax import models
from sigmax.errors import RequestError
from sigmax.jobs.label import read_labels
from sigmax.pipeline import Pipeline
from sigmax.pipeline.manifest import alone_in
from sigmax.records.verify import verify
from sigmax.systems import fingerprint
from sigmax.train import routes_of
from tests.pipeline.helpers import DUAL, STEPS, Bars, Killed, contents, pipeline, states

PHASES = [
    "train sigma-0.1",
    "train sigma-0.4",
    "make labels-1",
    "train router-1",
    "fine-tune tuned-1",
    "make labels-2",
    "train router-2",
    "build dual-min-router-2-tuned-1",
    "build dual-consensus-router-2-tuned-1",
    "certify sigma-0.1-tuned-1",
    "certify sigma-0.4-tuned-1",
    "certify dual-min-router-2-tuned-1",
    "certify dual-consensus-router-2-tuned-1",
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of one run from beginning to end."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("whole")
    assert states(folder, STEPS) == ["to do"] * len(PHASES)
    assert list(folder.iterdir()) == [folder / "pipe.toml"], "asking writes nothing"
    bars = Bars()
    pipeline(folder, STEPS).run(bars)
    assert bars.asked == PHASES
    return folder


@pytest.fixture
def copy(whole, tmp_path):
    """What it left, to be changed."""
    shutil.copytree(whole, tmp_path / "copy")
    return tmp_path / "copy"


def test_what_comes_out(whole):
    assert states(whole, STEPS) == ["done"] * len(PHASES)
    bars, before = Bars(), contents(whole / "work")
    runs = pipeline(whole, STEPS).run(bars)
    assert bars.asked == []
    assert contents(whole / "work") == before, "a second run does nothing"
    names = [name.removeprefix("certify ") for name in PHASES[9:]]
    assert [run.path.name for run in runs] == [f"{name}-skip60.jsonl" for name in names]
    for run in runs:
        assert sorted(record.index for record in run.records) == list(range(0, 360, 60))
        assert verify(run.path).holds


def test_every_part_is_the_one_before_it_made(whole):
    work = whole / "work"
    experts = [sx.load(work / "experts" / f"sigma-{sigma}") for sigma in (0.1, 0.4)]
    tuned = sx.load(work / "tuned-1")
    routers = [models.load(work / "nets" / f"router-{i}.safetensors")[0] for i in (1, 2)]
    assert read_labels(work / "labels-1").experts == tuple(map(fingerprint, experts))
    assert read_labels(work / "labels-2").experts == tuple(map(fingerprint, tuned.experts))
    assert fingerprint(tuned.router) == fingerprint(sx.Smoothed(routers[0], sigma=0.4, classes=2))
    runs = {run.path.name.split("-skip")[0]: run for run in pipeline(whole, STEPS).run(Bars())}
    for name, expert in zip(("sigma-0.1", "sigma-0.4"), tuned.experts, strict=True):
        assert runs[f"{name}-tuned-1"].plan.system == fingerprint(expert)
    for rule in ("min", "consensus"):
        dual = sx.Dual(sx.Smoothed(routers[1], sigma=0.4, classes=2), tuned.experts, rule=rule)
        name = f"dual-{rule}-router-2-tuned-1"
        assert runs[name].plan.system == fingerprint(dual) == fingerprint(sx.load(work / "systems" / name))
    routes = routes_of(tuned.router, sx.data.load("digits", "train"), n=20)
    assert json.loads((work / "tuned-1.training" / "routes.json").read_text())["routes"] == routes.tolist()


@pytest.mark.parametrize(
    "cuts",
    [
        [("make labels-1", 100), ("train router-1", 3), ("certify dual-min", 3)],
        pytest.param(
            [(phase, call) for phase in PHASES for call in (1, 3) if call == 1 or not phase.startswith("build")],
            marks=pytest.mark.slow,
        ),
    ],
    ids=["some", "all"],
)
def test_cut_anywhere_it_ends_as_if_left_alone(whole, tmp_path, cuts):
    text, reference = (STEPS, whole / "work") if len(cuts) > 3 else (DUAL, None)
    for phase, call in cuts:
        bars = Bars(phase, call)
        with pytest.raises(Killed):
            pipeline(tmp_path, text).run(bars)
        names = [each.name for each in pipeline(tmp_path, text).phases()]
        number, seen = names.index(phase), states(tmp_path, text)
        assert bars.asked[-1] == phase
        assert seen[:number] == ["done"] * number
        assert seen[number] in ("begun", "to do")
        assert seen[number + 1 :] == ["to do"] * (len(names) - number - 1)
    pipeline(tmp_path, text).run(Bars())
    if reference is None:
        (tmp_path / "alone").mkdir()
        pipeline(tmp_path / "alone", text).run(Bars())
        reference = tmp_path / "alone" / "work"
    assert contents(tmp_path / "work") == contents(reference)


def test_what_is_begun_is_seen_and_finished(whole, copy):
    """From the files alone, whichever of them are there."""
    work = copy / "work"
    run = work / "runs" / "sigma-0.1-tuned-1-skip60.jsonl"
    run.write_bytes(run.read_bytes().rsplit(b"\n", 4)[0])
    (work / "runs" / "sigma-0.4-tuned-1-skip60.jsonl").write_bytes(b'{"kind":')
    (work / "labels-1" / "expert-1.jsonl").unlink()
    shutil.rmtree(work / "tuned-1")
    (work / "nets" / "sigma-0.1.safetensors").unlink()
    (work / "runs" / "dual-min-router-2-tuned-1-skip60.jsonl").unlink()
    begun = ["train sigma-0.1", "make labels-1", "fine-tune tuned-1", *PHASES[9:11]]
    expected = {name: "begun" if name in begun else "done" for name in PHASES} | {PHASES[11]: "to do"}
    assert dict(zip(PHASES, states(copy, STEPS), strict=True)) == expected
    bars = Bars()
    pipeline(copy, STEPS).run(bars)
    assert bars.asked == [name for name in PHASES if expected[name] != "done"]
    assert contents(work) == contents(whole / "work")


# Another request


REPLACED = [name for name in PHASES[2:] if name != "certify sigma-0.4-tuned-1"]  # sigma 0.4 by another


@pytest.mark.parametrize(
    ("change", "reason", "redone"),
    [
        ("router.sigma=0.5", "router.sigma is 0.4 there and 0.5 here", PHASES[3:]),
        ("router.loss.consistency=3", "router.loss.consistency is 2.0 there and 3 here", PHASES[3:]),
        ("finetune.votes=30", "finetune.votes is 20 there and 30 here", PHASES[4:]),
        ("certify.n=200", "certify.n is 100 there and 200 here", PHASES[9:]),
        ("certify.seed=1", "certify.seed is 0 there and 1 here", PHASES[9:]),
        ("labels.n=60", "labels.n is 50 there and 60 here", PHASES[2:]),
        ("store=bf16", "store is 'fp32' there and 'bf16' here", PHASES),
        ("experts.training.epochs=6", "experts.training.epochs is 4 there and 6 here", PHASES),
        ("data.held_out=0.1", "data.held_out is 0 there and 0.1 here; data.train_images is ", PHASES),
        # An expert that stays is not trained again; one that is new has nothing to redo.
        ("experts.sigmas=0.1,0.3", "experts.sigmas is [0.1, 0.4] there and [0.1, 0.3] here", REPLACED),
        ('experts.method=["gaussian", "consistency"]', "experts.method is 'gaussian' there and", PHASES[1:]),
    ],
)
def test_a_changed_key_says_what_is_redone_and_what_is_reused(whole, change, reason, redone):
    before = contents(whole / "work")
    found = pipeline(whole, STEPS, [change]).redone()
    assert [phase.name for phase in found.phases] == redone
    changed, redo, reused = found.lines()
    assert changed.startswith(f"Changed: {reason}")
    assert changed.endswith(f" What was made for that goes to {whole / 'work' / 'previous' / '1'}.")
    assert redo.startswith(f"Redone: {redone[0]}")
    kept = [name for name in PHASES if name not in redone]
    assert reused.startswith(f"Reused: {', '.join(kept[:1]) or 'nothing'}")
    early = change.partition("=")[0].partition(".")[0] not in ("router", "finetune", "certify")
    assert found.takes_long == early
    asked, bars = pipeline(whole, STEPS, [change]), Bars()
    if early:
        with pytest.raises(RequestError, match=r"holds another pipeline: .* so give --redo to do them again"):
            asked.run(bars)
    else:
        asked.check()
    assert bars.asked == []
    assert contents(whole / "work") == before, "neither a question nor a refusal writes anything"


def test_a_late_key_redoes_what_depends_on_it_and_loses_nothing(copy):
    """The router's sigma; then the number of samples. Old files are kept with what they were made for."""
    work, notes = copy / "work", []
    before = contents(work)
    bars = Bars()
    made = replace(pipeline(copy, STEPS, ["router.sigma=0.5"]), on_note=notes.append)
    runs = made.run(bars)
    assert bars.asked == PHASES[3:]
    assert notes[0].startswith("Changed: router.sigma is 0.4 there and 0.5 here. What was made for that goes to ")
    assert notes[2].startswith("Reused: train sigma-0.1, train sigma-0.4, make labels-1")
    assert runs[-1].plan.rule["router"]["sigma"] == 0.5
    kept, after = contents(work / "previous" / "1"), contents(work)
    requests = json.loads(kept.pop("pipeline.json"))["phases"]
    assert requests["nets/router-1.safetensors"]["router"]["sigma"] == 0.4
    assert len(requests) == len(PHASES[3:])
    for name, content in before.items():
        assert name == "pipeline.json" or content == kept.get(name, after[name]), "it was kept, or moved"
    assert {"nets/router-1.safetensors.metrics.jsonl", "runs/dual-min-router-2-tuned-1-skip60.jsonl"} <= kept.keys()
    bars = Bars()
    pipeline(copy, STEPS, ["router.sigma=0.5", "certify.n=200"]).run(bars)
    assert bars.asked == PHASES[9:]
    assert {path.name for path in (work / "previous" / "2").iterdir()} == {"pipeline.json", "runs"}
    assert states(copy, STEPS, ["router.sigma=0.5", "certify.n=200"]) == ["done"] * len(PHASES)


def test_what_was_made_for_an_earlier_request_is_taken_back(copy):
    work, bars, notes = copy / "work", Bars(), []
    before = contents(work)
    for changes in (["certify.n=200"], ["certify.n=200", "certify.n0=30"]):
        pipeline(copy, STEPS, changes).run(Bars())
    found = pipeline(copy, STEPS).redone()
    assert found.phases == ()
    assert [phase.name for phase, _ in found.returned] == PHASES[9:]
    replace(pipeline(copy, STEPS), on_note=notes.append).run(bars)
    assert bars.asked == []
    assert notes[1].startswith(f"Taken back from {work / 'previous'}: certify sigma-0.1-tuned-1, ")
    after = contents(work)
    assert {name: after[name] for name in before} == before
    kept = {number: sorted((work / "previous" / number / "runs").iterdir()) for number in "123"}
    assert [len(runs) for runs in kept.values()] == [0, 4, 4]
    assert [sx.read(kept[number][0]).plan.n0 for number in "23"] == [20, 30]
    pipeline(copy, STEPS, ["certify.n=200"]).run(bars)
    assert bars.asked == []


def test_an_early_key_is_redone_when_asked(copy):
    """A third expert: the two others are not trained again. The same call goes on where it was cut."""
    change = ["experts.sigmas=0.1,0.2,0.4"]
    nets = copy / "work" / "nets"
    before = (nets / "sigma-0.1.safetensors").read_bytes()
    bars = Bars("make labels-1", 2)
    with pytest.raises(Killed):
        pipeline(copy, STEPS, change).run(bars, redo=True)
    assert bars.asked == ["train sigma-0.2", "make labels-1"]
    assert (nets / "sigma-0.1.safetensors").read_bytes() == before
    assert (copy / "work" / "previous" / "1" / "labels-1" / "expert-1.jsonl").is_file()
    bars = Bars("train router-1", 1)
    with pytest.raises(Killed):
        pipeline(copy, STEPS, change).run(bars)
    assert bars.asked == ["make labels-1", "train router-1"], "what was moved is not asked for again"


def test_two_pipelines_do_not_move_each_others_files(copy):
    work = copy / "work"
    before = contents(work)
    with alone_in(work), pytest.raises(RequestError, match="another process runs a pipeline in"):
        pipeline(copy, STEPS, ["router.sigma=0.5"]).run(Bars())
    assert contents(work) == before


def test_runs_of_other_inputs_and_rules_are_of_the_request_they_were_made_for(copy):
    """They are not asked for when the router changes, and so stay; asked for again, they are redone."""
    few = ["certify.start=1", 'certify.rules=["min"]']
    pipeline(copy, STEPS, few).run(Bars())
    pipeline(copy, STEPS, ["router.sigma=0.5"]).run(Bars())
    stale = copy / "work" / "runs" / "dual-min-router-2-tuned-1-start1-skip60.jsonl"
    assert sx.read(stale).plan.rule["router"]["sigma"] == 0.4
    found = pipeline(copy, STEPS, ["router.sigma=0.5", *few]).redone()
    assert [phase.name for phase in found.phases] == [PHASES[9], PHASES[10], PHASES[11]]
    pipeline(copy, STEPS, ["router.sigma=0.5", *few]).run(Bars())
    assert sx.read(stale).plan.rule["router"]["sigma"] == 0.5


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("experts.training.epochs=6", "sigma-0.1.safetensors"),
        ("labels.n=60", "labels-1 holds the labels of another request: n is 50 there and 60 here"),
        ("finetune.votes=30", "votes is 20 there and 30 here"),
    ],
)
def test_without_the_manifest_the_files_refuse_by_themselves(copy, change, named):
    (copy / "work" / "pipeline.json").unlink()
    before = contents(copy / "work")
    with pytest.raises(RequestError, match=named):
        pipeline(copy, STEPS, [change]).run(Bars())
    assert contents(copy / "work") == before, "no manifest of the refused pipeline is left"


@pytest.mark.parametrize("content", ["", "[]", "{}", "{"])
def test_a_damaged_manifest_is_refused(copy, content):
    (copy / "work" / "pipeline.json").write_text(content)
    with pytest.raises(RequestError, match=r"pipeline.json is damaged; delete it: all other files say"):
        pipeline(copy, STEPS).check()


def test_other_inputs_and_rules_may_be_certified_later(copy):
    bars = Bars()
    changes = ["certify.start=1", "certify.skip=50", "certify.max=2", 'certify.rules=["min"]', "certify.experts=false"]
    runs = pipeline(copy, STEPS, changes).run(bars)
    assert bars.asked == ["certify dual-min-router-2-tuned-1"]
    assert [run.path.name for run in runs] == ["dual-min-router-2-tuned-1-start1-skip50.jsonl"]
    assert sorted(record.index for record in runs[0].records) == [1, 51]
    assert states(copy, STEPS) == ["done"] * len(PHASES)


def test_more_inputs_extend_the_runs_and_fewer_are_taken_from_them(copy):
    more, bars = ["certify.skip=120", "certify.rules=min", "certify.experts=false"], Bars()
    (few,) = pipeline(copy, STEPS, [*more, "certify.max=1"]).run(bars)
    (all_,) = pipeline(copy, STEPS, more).run(bars)
    (again,) = pipeline(copy, STEPS, [*more, "certify.max=1"]).run(bars)
    assert bars.asked == ["certify dual-min-router-2-tuned-1"] * 2, "begun, then extended"
    assert few.path == all_.path == again.path
    assert [len(run.records) for run in (few, all_, again)] == [1, 3, 1]
    assert verify(all_.path).holds


def test_steps_may_be_added_later(whole, tmp_path):
    """The router alone first, with settings of fine-tuning that do not matter yet; then the rest."""
    first = pipeline(tmp_path, DUAL, ["finetune.votes=30"]).run(Bars())
    assert [run.path.name for run in first] == [
        f"{name}-skip60.jsonl" for name in ("sigma-0.1", "sigma-0.4", "dual-min", "dual-consensus")
    ]
    before, bars = contents(tmp_path / "work"), Bars()
    pipeline(tmp_path, STEPS).run(bars)
    assert bars.asked == PHASES[4:]
    after = contents(tmp_path / "work")
    assert before.pop("pipeline.json") != after["pipeline.json"]
    assert before.items() <= after.items(), "what was there is still there"
    wanted = contents(whole / "work")
    known, all_known = (json.loads(found.pop("pipeline.json"))["phases"] for found in (wanted, after))
    assert wanted.items() <= after.items()
    assert known.items() <= all_known.items()
    pipeline(tmp_path, DUAL).run(Bars())
    changed = pipeline(tmp_path, STEPS, ["finetune.votes=30"]).redone()
    assert changed.reasons == ("finetune.votes is 20 there and 30 here",)


def test_it_goes_on_where_file_and_folder_were_moved_to(whole, tmp_path, monkeypatch):
    shutil.copytree(whole, tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    bars = Bars()
    Pipeline.read(Path("moved/pipe.toml")).run(bars)
    assert bars.asked == []
    (tmp_path / "work").write_text("a file")
    with pytest.raises(RequestError, match="cannot write"):
        pipeline(tmp_path, STEPS).run(Bars())


# Other kinds of experts


def test_systems_that_exist_become_experts(whole, tmp_path):
    """One of them a Dual itself; that one is exchanged for another later, which is noticed."""
    work = whole / "work"
    shutil.copytree(work / "experts" / "sigma-0.1", tmp_path / "weak")
    shutil.copytree(work / "systems" / "dual-consensus-router-2-tuned-1", tmp_path / "routed")
    text = DUAL.replace(DUAL[DUAL.index("sigmas") : DUAL.index("[labels]")], 'systems = ["weak", "routed"]\n')
    bars = Bars()
    runs = pipeline(tmp_path, text).run(bars)
    assert bars.asked[:2] == ["make labels-1", "train router-1"]
    assert [run.plan.rule["scheme"] for run in runs] == ["smoothed", "dual", "dual", "dual"]
    assert all(verify(run.path).holds for run in runs)
    before = contents(tmp_path / "work")
    shutil.rmtree(tmp_path / "routed")
    shutil.copytree(work / "systems" / "dual-min-router-2-tuned-1", tmp_path / "routed")
    with pytest.raises(RequestError, match=r"holds another pipeline: experts.systems is "):
        pipeline(tmp_path, text).run(Bars())
    assert contents(tmp_path / "work") == before


def test_one_network_under_all_noises_stays_one(tmp_path):
    changes = ["experts.one_network=true", 'steps=["router", "finetune"]', "finetune.consistency=2"]
    bars = Bars()
    runs = pipeline(tmp_path, DUAL, changes).run(bars)
    assert bars.asked[:2] == ["train experts", "make labels-1"]
    work = tmp_path / "work"
    method = models.read(work / "tuned-1.training" / "expert-0.safetensors").description.notes["training"]["method"]
    assert (method["name"], method["consistency"]) == ("routed-consistency", 2.0)
    for tuned in (0, 1):
        experts = pipeline(tmp_path, DUAL, changes).experts(tuned)
        assert experts[0].voters["base"].model is experts[1].voters["base"].model
        assert [expert.sigma for expert in experts] == [0.1, 0.4]
    system = sx.load(work / "systems" / "dual-min-tuned-1")
    assert system.voters["expert-0/base"] is system.voters["expert-1/base"]
    assert all(verify(run.path).holds for run in runs)


def test_experts_are_trained_and_certify_as_asked(tmp_path):
    changes = ['experts.method=["gaussian", "consistency"]', "experts.hyper=[{copies=2}, {consistency=3.0}]"]
    changes += ["experts.bound=runner-up", "store=bf16", "certify.sampling=adaptive", "certify.tolerance=0.1"]
    changes += ["certify.batch=64", "labels.sampling=adaptive", "labels.targets=0.05,0.1,0.2", "router.start=1"]
    *alone, _, last = pipeline(tmp_path, DUAL, changes).run(Bars())
    work = tmp_path / "work"
    notes = [models.read(work / "nets" / f"sigma-{s}.safetensors").description.notes for s in (0.1, 0.4)]
    assert [note["training"]["method"]["name"] for note in notes] == ["gaussian", "consistency"]
    assert notes[0]["training"]["method"]["copies"] == 2
    assert [run.plan.rule["bound"] for run in alone] == ["runner-up"] * 2
    assert last.plan.sampling["tolerance"] == 0.1
    assert verify(last.path).holds
    assert sx.read(work / "labels-1" / "expert-0.jsonl").plan.sampling["targets"] == [0.05, 0.1, 0.2]
    begun = models.read(work / "nets" / "router-1.safetensors").description.notes["training"]["start"]
    system = sx.load(work / "systems" / "dual-consensus")
    assert fingerprint(system) == last.plan.system
    assert begun is not None
    for voter in system.voters.values():
        for tensor in voter.model.state_dict().values():
            assert tensor.ndim < 2 or torch.equal(tensor, tensor.bfloat16().float()), "kept weights are certified"


# Labels by experts that were not trained on the images


def test_folds_are_labelled_by_experts_that_never_saw_them(tmp_path):
    made, bars = pipeline(tmp_path, DUAL, ["labels.folds=2"]), Bars("certify sigma-0.1", 1)
    with pytest.raises(Killed):
        made.run(bars)
    assert bars.asked[:-1] == [
        *(f"train sigma-{s}{of}" for of in ("", " without fold 0", " without fold 1") for s in (0.1, 0.4)),
        "make labels-1/fold-0",
        "make labels-1/fold-1",
        "train router-1",
        "build dual-min",
        "build dual-consensus",
    ]
    work = tmp_path / "work"
    digits, parts = made.train, made._data.parts(work / "labels-1")
    assert sorted(np.concatenate([part.indices for part in parts])) == list(range(len(digits)))
    for fold, part in enumerate(parts):
        trained_on = models.read(work / "nets" / f"fold-{fold}" / "sigma-0.1.safetensors").description.notes
        rest = digits.take(np.setdiff1d(np.arange(len(digits)), part.indices))
        assert trained_on["training"]["data"]["fingerprint"] == rest.fingerprint
        assert read_labels(part.folder).experts == tuple(fingerprint(e) for e in made._experts.load({}, fold))
    labels = made._routers.labels_of(1, 0)
    assert labels.experts == tuple(fingerprint(e) for e in made.experts(0))
    assert np.array_equal(labels.labels, digits.labels[labels.indices])
    assert len(labels) == sum(len(read_labels(part.folder)) for part in parts)


def test_images_held_out_are_not_trained_on(tmp_path):
    """One share for labels, another for choices; the second can be certified."""
    changes = ["labels.held_out=0.1", "labels.fraction=1.0", "data.held_out=0.05", "data.test=train"]
    made = pipeline(tmp_path, DUAL, changes)
    with pytest.raises(Killed):
        made.run(Bars("certify sigma-0.4", 1))
    held, digits = made.test, sx.data.load("digits", "train")
    assert (len(held), len(made.train)) == (round(0.05 * len(digits)), len(digits) - len(held))
    seen = {image.tobytes() for image in made.train.pixels(range(len(made.train)))}
    assert not any(image.tobytes() in seen for image in held.pixels(range(len(held))))
    (part,) = made._data.parts(tmp_path / "work" / "labels-1")
    trained_on = models.read(tmp_path / "work" / "nets" / "sigma-0.1.safetensors").description.notes["training"]
    rest = made.train.take(np.setdiff1d(np.arange(len(made.train)), part.indices))
    assert trained_on["data"]["fingerprint"] == rest.fingerprint == made._data.taught.fingerprint
    assert np.array_equal(made._routers.labels_of(1, 0).indices, part.indices)
    run = sx.read(tmp_path / "work" / "runs" / "sigma-0.1-on-train-skip60.jsonl")
    assert run.plan.data["fingerprint"] == held.fingerprint
