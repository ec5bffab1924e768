"""What a pipeline can be asked beyond the plain road: trees, labels by strangers, arithmetic, images held out."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

import sigmax as sx
from sigmax import models
from sigmax.errors import RequestError
from sigmax.records.verify import verify
from sigmax.report.diagnosis import diagnose
from sigmax.system import fingerprint
from sigmax.train import Pipeline, PipelineConfig, read_labels
from tests.train.test_pipeline import Bars, Killed, contents, states

CONFIG = """
out = "work"
[data]
source = "digits"
[experts]
sigmas = [0.1, 0.2, 0.4]
options.width = 4
training = {epochs = 4, batch = 32}
[labels]
n = 50
fraction = 0.1
[router]
sigma = 0.4
options.width = 4
training = {epochs = 2, batch = 32}
objective = "certified"
radii = [0.0, 0.1, 0.2]
weights = [2, 1, 1]
[certify]
n0 = 20
n = 100
skip = 60
"""
TREE = f"""{CONFIG}
[[inner]]
experts = [0, 1]
sigma = 0.2
options.width = 4
training = {{epochs = 2, batch = 32}}
objective = "weighted"
"""
TWO = CONFIG.replace("sigmas = [0.1, 0.2, 0.4]", "sigmas = [0.1, 0.4]")


def pipeline(folder, text=CONFIG, changes=()):
    (folder / "pipe.toml").write_text(text)
    return Pipeline(PipelineConfig.read(folder / "pipe.toml", changes))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Three experts and their labels, for all who only ask about what comes after."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("trained")
    with pytest.raises(Killed):
        pipeline(folder).run(Bars("train router-1", 1))
    return folder


@pytest.fixture
def experts(trained, tmp_path):
    """A copy of these experts and labels, before any router; the claim is left to whoever goes on."""
    for name in ("nets", "experts", "labels-1"):
        shutil.copytree(trained / "work" / name, tmp_path / "work" / name)
    return tmp_path


# Trees


def test_a_tree_of_routers_is_trained_built_certified_and_diagnosed(experts):
    bars = Bars()
    runs = {run.path.name.partition("-skip")[0]: run for run in pipeline(experts, TREE).run(bars)}
    assert bars.asked == [
        "train router-1-inner-0",
        "train router-1",
        "certify sigma-0.1",
        "certify sigma-0.2",
        "certify sigma-0.4",
        "certify inner-0-min",
        "certify inner-0-consensus",
        "certify dual-min",
        "certify dual-consensus",
    ]
    assert all(verify(run.path).holds for run in runs.values())
    work = experts / "work"
    tree = sx.load(work / "systems" / "dual-consensus")
    inner, last = tree.experts
    assert repr(tree) == (
        "Dual(consensus, router sigma 0.4, "
        "experts (consensus, router sigma 0.2, experts 0.1 / 0.2) / 0.4, 10 classes)"
    )
    assert fingerprint(inner) == runs["inner-0-consensus"].plan.system
    assert fingerprint(last) == runs["sigma-0.4"].plan.system
    assert runs["dual-consensus"].plan.made_with["experts"] == [fingerprint(inner), fingerprint(last)]
    for rule in ("min", "consensus"):
        beside = [runs[f"inner-0-{rule}"], runs["sigma-0.4"]]
        assert len(diagnose(runs[f"dual-{rule}"], beside).route_shares) == 2
    below = diagnose(runs["inner-0-consensus"], [runs["sigma-0.1"], runs["sigma-0.2"]])
    assert len(below.frame) == len(runs["dual-consensus"].records)
    assert states(experts, TREE) == ["done"] * 13


def test_routers_may_begin_with_the_networks_of_experts(experts):
    changes = ("router.start=2", "inner.0.start=1", "certify.experts=false")
    made = pipeline(experts, TREE, changes)
    with pytest.raises(Killed):
        made.run(Bars("certify dual-min", 1))
    nets = experts / "work" / "nets"
    for name, expert in (("router-1", "sigma-0.4"), ("router-1-inner-0", "sigma-0.2")):
        plan = models.read(nets / f"{name}.safetensors").description.notes["training"]
        assert plan["start"] == models.fingerprint(models.load(nets / f"{expert}.safetensors")[0])
    with pytest.raises(RequestError, match=r"holds another pipeline.*start"):
        pipeline(experts, TREE, ("certify.experts=false",)).check()


def test_a_routed_experts_label_is_its_best_experts_radius(experts):
    made = pipeline(experts, TREE)
    with pytest.raises(Killed):
        made.run(Bars("certify sigma-0.1", 1))
    labels = read_labels(experts / "work" / "labels-1")
    told = {
        name: models.read(experts / "work" / "nets" / f"{name}.safetensors").description.notes["router"]
        for name in ("router-1-inner-0", "router-1")
    }
    assert told["router-1-inner-0"]["experts"] == list(labels.experts[:2])
    assert told["router-1"]["experts"][1] == labels.experts[2]
    assert told["router-1"]["sigmas"] == [None, 0.4]
    tree = made.config.tree
    above = made._routers.labels_of(tree, 1, 0)
    assert np.array_equal(above.radii[:, 0], labels.radii[:, :2].max(axis=1))
    assert np.array_equal(above.radii[:, 1], labels.radii[:, 2])
    assert told["router-1"]["fingerprint"] == above.fingerprint


def test_a_routed_experts_label_can_be_measured(experts):
    text = TREE.replace("fraction = 0.1", 'fraction = 0.1\ninner = "measured"')
    made, bars = pipeline(experts, text), Bars("certify sigma-0.1", 1)
    with pytest.raises(Killed):
        made.run(bars)
    assert bars.asked[:3] == ["train router-1-inner-0", "make labels-1-inner-0", "train router-1"]
    measured = read_labels(experts / "work" / "labels-1-inner-0")
    system = models.read(experts / "work" / "nets" / "router-1.safetensors").description.notes["router"]
    assert measured.experts == (system["experts"][0],)
    assert np.array_equal(made._routers.labels_of(made.config.tree, 1, 0).radii[:, 0], measured.radii[:, 0])
    best = read_labels(experts / "work" / "labels-1").radii[:, :2].max(axis=1)
    assert (measured.radii[:, 0] <= best + 0.15).all(), "up to the noise of 50 draws no more than the best expert"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "experts = [0, 1]",
            "experts = [0, 2]",
            "[[inner]]: inner router 0 must choose among two or more neighbours",
        ),
        ("experts = [0, 1]", "experts = [1, 0]", "in their order, and not among all of them; got experts = [1, 0]"),
        ("experts = [0, 1]", "experts = [0, 1, 2]", "must choose among two or more neighbours of [0], [1], [2]"),
        ("experts = [0, 1]", "experts = [1]", "must choose among two or more neighbours"),
        ("experts = [0, 1]", "experts = []", "must choose among two or more neighbours"),
        ("experts = [0, 1]", "experts = [1, 3]", "must choose among two or more neighbours"),
        ("experts = [0, 1]", "", "inner 0.experts is missing: the places of its experts, such as [0, 1]"),
        ("sigma = 0.2", "", "inner 0.sigma is missing"),
        ('"weighted"', '"best"', "inner 0.objective must be one of paper, certified, weighted; got 'best'"),
        (
            'out = "work"',
            'out = "work"\nsteps = ["router", "finetune"]',
            "a tree of routers is trained in one step",
        ),
    ],
)
def test_a_wrong_tree_is_refused(tmp_path, old, new, message):
    with pytest.raises(RequestError) as refused:
        pipeline(tmp_path, TREE.replace(old, new))
    assert message in str(refused.value)


def test_trees_may_be_deep(tmp_path):
    text = TREE.replace("sigmas = [0.1, 0.2, 0.4]", "sigmas = [0.1, 0.2, 0.3, 0.4]")
    config = pipeline(tmp_path, f"{text}\n[[inner]]\nexperts = [0, 1, 2]\nsigma = 0.3").config
    assert [(node.inner, node.experts) for node in config.tree.routers()] == [
        (0, (0, 1)),
        (1, (0, 1, 2)),
        (None, (0, 1, 2, 3)),
    ]
    assert [len(node.routes) for node in config.tree.routers()] == [2, 2, 2]
    twice = pipeline(tmp_path, f"{text}\n[[inner]]\nexperts = [2, 3]\nsigma = 0.4").config
    assert [node.experts for node in twice.tree.routes] == [(0, 1), (2, 3)]


def test_too_little_noise_below_is_said(tmp_path):
    said = []
    (tmp_path / "pipe.toml").write_text(
        TREE.replace("experts = [0, 1]\nsigma = 0.2", "experts = [0, 1]\nsigma = 0.1")
    )
    Pipeline(PipelineConfig.read(tmp_path / "pipe.toml"), on_warning=said.append).check()
    assert said == [
        "inner 0.sigma 0.1 is below the largest noise of the experts, 0.2: routes cannot be certified as far as "
        "that expert certifies; use 0.2 or more"
    ]


# Labels by experts that never saw the images


def test_folds_are_labelled_by_experts_that_never_saw_them(tmp_path):
    text = TWO.replace("fraction = 0.1", "fraction = 0.1\nfolds = 2")
    bars = Bars()
    runs = pipeline(tmp_path, text).run(bars)
    assert bars.asked == [
        *(f"train sigma-{s}{of}" for of in ("", " without fold 0", " without fold 1") for s in (0.1, 0.4)),
        "make labels-1/fold-0",
        "make labels-1/fold-1",
        "train router-1",
        *(f"certify {name}" for name in ("sigma-0.1", "sigma-0.4", "dual-min", "dual-consensus")),
    ]
    made, work = pipeline(tmp_path, text), tmp_path / "work"
    digits, parts = made.train, made._data.parts(work / "labels-1")
    assert sorted(np.concatenate([part.indices for part in parts])) == list(range(len(digits)))
    for fold, part in enumerate(parts):
        trained_on = models.read(work / "nets" / f"fold-{fold}" / "sigma-0.1.safetensors").description.notes
        rest = digits.take(np.setdiff1d(np.arange(len(digits)), part.indices))
        assert trained_on["training"]["data"]["fingerprint"] == rest.fingerprint
        labels = read_labels(part.folder)
        assert labels.experts == tuple(fingerprint(e) for e in made._experts.load({}, fold))
        assert labels.data["fingerprint"] == digits.take(part.indices).fingerprint
    final = models.read(work / "nets" / "sigma-0.1.safetensors").description.notes["training"]["data"]
    assert final["fingerprint"] == digits.fingerprint
    whole = made._routers.labels_of(made.config.tree, 1, 0)
    assert whole.experts == tuple(fingerprint(e) for e in made.experts(0))
    assert np.array_equal(whole.labels, digits.labels[whole.indices])
    assert len(whole) == sum(len(read_labels(part.folder)) for part in parts)
    where = parts[0].indices[read_labels(parts[0].folder).indices]
    assert np.array_equal(whole.radii[np.isin(whole.indices, where)], read_labels(parts[0].folder).radii)
    assert runs[-1].plan.made_with["experts"] == list(whole.experts)
    assert states(tmp_path, text) == ["done"] * len(bars.asked)
    again = Bars()
    pipeline(tmp_path, text).run(again)
    assert again.asked == []


def test_a_share_held_out_for_labels_is_not_trained_on(tmp_path):
    text = TWO.replace("fraction = 0.1", "held_out = 0.1")
    made = pipeline(tmp_path, text)
    with pytest.raises(Killed):
        made.run(Bars("certify sigma-0.1", 1))
    (part,) = made._data.parts(tmp_path / "work" / "labels-1")
    assert len(part.indices) == round(0.1 * len(made.train))
    trained_on = models.read(tmp_path / "work" / "nets" / "sigma-0.1.safetensors").description.notes["training"]
    rest = made.train.take(np.setdiff1d(np.arange(len(made.train)), part.indices))
    assert trained_on["data"]["fingerprint"] == rest.fingerprint == made._data.taught.fingerprint
    whole = made._routers.labels_of(made.config.tree, 1, 0)
    assert np.array_equal(whole.indices, part.indices)
    assert np.array_equal(whole.labels, made.train.labels[part.indices])


@pytest.mark.parametrize(
    ("labels", "steps", "message"),
    [
        ("folds = 0", "", "[labels]: folds must be at least 1"),
        ("folds = 100000", "", "labels.folds: 1437 inputs can be divided into 2 to 1437 folds; got 100000"),
        ("folds = 2\nheld_out = 0.1", "", "[labels]: take folds, which label every input, or held_out"),
        ("held_out = 1", "", "[labels]: held_out must be at least 0 and below 1"),
        ("held_out = 0.0001", "", "labels.held_out: a share of 0.0001 of 1437 inputs sets 0 aside"),
        ('folds = 2\ninner = "measured"', "", "with folds take inner = 'best'"),
        ("folds = 2", 'steps = ["router", "finetune", "router"]', "labels after a 'finetune' cannot be theirs"),
    ],
)
def test_impossible_labels_are_refused(tmp_path, labels, steps, message):
    text = TWO.replace("fraction = 0.1", labels).replace('out = "work"', f'out = "work"\n{steps}')
    with pytest.raises(RequestError) as refused:
        pipeline(tmp_path, text).check()
    assert message in str(refused.value)


def test_systems_that_exist_cannot_be_strangers(tmp_path):
    text = TWO.replace(
        "sigmas = [0.1, 0.4]\noptions.width = 4\ntraining = {epochs = 4, batch = 32}", 'systems=["a","b"]'
    )
    with pytest.raises(RequestError, match="systems that exist saw what they saw"):
        pipeline(tmp_path, text.replace("fraction = 0.1", "folds = 2"))


# Images to choose on


def test_images_held_out_are_neither_trained_nor_labelled_on_and_can_be_certified(tmp_path):
    text = TWO.replace('source = "digits"', 'source = "digits"\nheld_out = 0.05\ntest = "train"').replace(
        "60", "12"
    )
    runs = pipeline(tmp_path, text).run(Bars())
    digits = sx.data.load("digits", "train")
    held = pipeline(tmp_path, text).test
    assert len(held) == round(0.05 * len(digits))
    assert runs[0].path.name == "sigma-0.1-on-train-skip12.jsonl"
    assert runs[0].plan.data["fingerprint"] == held.fingerprint
    seen = {images.tobytes() for images in pipeline(tmp_path, text).train.pixels(range(len(digits) - len(held)))}
    assert sum(image.tobytes() in seen for image in held.pixels(range(len(held)))) == 0
    before = contents(tmp_path / "work")
    later = Bars()
    final = pipeline(tmp_path, text.replace('\ntest = "train"', "").replace("skip = 12", "skip = 60")).run(later)
    assert later.asked == [f"certify {name}" for name in ("sigma-0.1", "sigma-0.4", "dual-min", "dual-consensus")]
    assert final[0].plan.data["split"] == "test"
    assert before.items() <= contents(tmp_path / "work").items()


# How votes are cast


def test_labels_and_certificates_may_be_adaptive_and_in_other_arithmetic(experts):
    changes = ("labels.sampling=adaptive", "labels.targets=[0.05, 0.1, 0.2]", "out=other")
    changes += ("certify.sampling=adaptive", "certify.tolerance=0.1", "certify.dtype=bf16", "certify.batch=64")
    shutil.copytree(experts / "work" / "nets", experts / "other" / "nets")
    shutil.copytree(experts / "work" / "experts", experts / "other" / "experts")
    made = pipeline(experts, TWO.replace("[0.1, 0.4]", "[0.1, 0.2, 0.4]"), changes)
    runs = made.run(Bars())
    for run in runs:
        assert run.plan.sampling["kind"] == "adaptive"
        assert run.plan.sampling["tolerance"] == 0.1
        assert run.plan.arithmetic == "cpu bfloat16"
        assert set(run.plan.made_with["batch"].values()) == {64}
        assert verify(run.path).holds
    told = sx.read(experts / "other" / "labels-1" / "expert-0.jsonl").plan
    assert told.sampling["targets"] == [0.05, 0.1, 0.2]
    assert told.arithmetic == "cpu float32"
    drawn = [
        s.n
        for run in sx.read(experts / "other" / "labels-1" / "expert-0.jsonl").records
        for s in run.certificate.stages
    ]
    assert min(drawn) < 50
    with pytest.raises(RequestError, match="labels.targets is"):
        pipeline(experts, TWO.replace("[0.1, 0.4]", "[0.1, 0.2, 0.4]"), (*changes, "labels.targets=[0.1]")).check()
    moved = pipeline(experts, TWO.replace("[0.1, 0.4]", "[0.1, 0.2, 0.4]"), (*changes, "labels.batch=32"))
    moved.check()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("certify.targets=[0.1]", "[certify]: targets and tolerance say when sampling may stop"),
        ("labels.sampling=often", "labels.sampling must be one of fixed, adaptive; got 'often'"),
        ("labels.dtype=int8", "labels.dtype must be one of fp32, bf16, fp16; got 'int8'"),
        ("certify.compile=yes", "certify.compile must be one of off, default, graphs, tuned, auto"),
        ("certify.batch=0", "[certify]: batch must be at least 1; got 0"),
        ("certify.device=nonsense", "device 'nonsense' cannot be used"),
        ("store=int8", "store must be one of fp32, bf16; got 'int8'"),
        ("experts.method=mine", "[experts]: unknown training method 'mine'"),
        ("experts.hyper={consistency=1.0}", "[experts]: gaussian has no consistency"),
        ('experts.method=["gaussian","gaussian"]', "experts.method must be one for all, or a list of one for each"),
        ("data.held_out=1", "data.held_out must be at least 0 and below 1"),
        ("data.held_out=0.00001", "data.held_out: a share of 1e-05"),
        ("router.sharpness=3.0", "[router]: the objective 'certified' has no sharpness"),
        ("router.preset=dual-cifar10", "router.preset: the preset 'dual-cifar10' sets the paper's loss"),
        ("router.start=3", "router.start must be the place of an expert that is trained here, 0 to 2; got 3"),
        ("router.start=-1", "router.start must be the place of an expert"),
        ("router.options={width=8}; router.start=0", "router.start: a router that begins with an expert's network"),
        ("router", "a change is given as KEY=VALUE, such as router.sigma=0.5; got 'router'"),
        ("router.=3", "a change is given as KEY=VALUE"),
        ("out.x=3", "'out.x=3': out is 'work', no table"),
        ("inner.0.sigma=0.5", None),
    ],
)
def test_wrong_words_are_refused(tmp_path, change, message):
    if message is None:
        assert pipeline(tmp_path, TREE, [change]).config.inner[0].sigma == 0.5
        with pytest.raises(RequestError, match="expected a number below 1 in place of '1'"):
            pipeline(tmp_path, TREE, ["inner.1.sigma=0.5"])
        return
    with pytest.raises(RequestError) as refused:
        pipeline(tmp_path, CONFIG, change.split("; ")).check()
    assert message in str(refused.value)


def test_a_key_can_be_left_out_for_once(tmp_path):
    assert pipeline(tmp_path, CONFIG, ["router.weights=", "labels.nothing="]).config.router.loss == {
        name: value for name, value in pipeline(tmp_path).config.router.loss.items() if name != "weights"
    }


def test_targets_out_of_reach_are_refused(tmp_path):
    changes = ("certify.sampling=adaptive", "certify.targets=[5.0]")
    with pytest.raises(RequestError, match=r"\[certify\]: none of the targets can be reached: n=100 draws"):
        pipeline(tmp_path, CONFIG, changes)


def test_experts_are_trained_by_the_method_asked_for(tmp_path):
    changes = ('experts.method=["gaussian", "consistency"]', "experts.hyper=[{copies=2}, {consistency=3.0}]")
    with pytest.raises(Killed):
        pipeline(tmp_path, TWO, changes).run(Bars("make labels-1", 1))
    told = [
        models.read(tmp_path / "work" / "nets" / f"sigma-{s}.safetensors").description.notes for s in (0.1, 0.4)
    ]
    assert told[0]["training"]["method"] == {"name": "gaussian", "sigma": 0.1, "copies": 2}
    assert (told[1]["training"]["method"]["name"], told[1]["training"]["method"]["consistency"]) == (
        "consistency",
        3.0,
    )
    with pytest.raises(RequestError, match="experts.hyper is"):
        pipeline(tmp_path, TWO, (changes[0], "experts.hyper=[{copies=2}, {consistency=4.0}]")).check()
    with pytest.raises(RequestError, match="experts.one_network trains by cross-entropy"):
        pipeline(tmp_path, TWO, ("experts.one_network=true", "experts.method=consistency"))


def test_experts_certify_by_the_bound_asked_for(tmp_path):
    *alone, _, last = pipeline(tmp_path, TWO, ["experts.bound=runner-up"]).run(Bars())
    assert [run.plan.rule["bound"] for run in alone] == ["runner-up"] * 2
    assert [expert["bound"] for expert in last.plan.rule["experts"]] == ["runner-up"] * 2
    assert last.plan.rule["router"]["bound"] == "one-sided"
    assert verify(last.path).holds
    labels = (tmp_path / "work" / "labels-1" / "expert-0.jsonl").read_text()
    assert '"bound":"runner-up"' in labels.splitlines()[0]
    (tmp_path / "work" / "pipeline.json").unlink()  # the experts themselves know, too
    with pytest.raises(RequestError, match="another"):
        pipeline(tmp_path, TWO).run(Bars())


def test_weights_kept_small_are_what_is_certified(tmp_path):
    made = pipeline(tmp_path, TWO, ["store=bf16"])
    runs = made.run(Bars())
    assert states(tmp_path, TWO.replace('out = "work"', 'out = "work"\nstore = "bf16"')) == ["done"] * 8
    system = sx.load(tmp_path / "work" / "systems" / "dual-consensus")
    assert fingerprint(system) == runs[-1].plan.system
    assert [fingerprint(e) for e in system.experts] == runs[-1].plan.made_with["experts"]
    assert [run.plan.system for run in runs[:2]] == runs[-1].plan.made_with["experts"]
    for voter in system.voters.values():
        for tensor in voter.model.state_dict().values():
            assert tensor.ndim < 2 or torch.equal(tensor, tensor.bfloat16().float())
    full = models.load(tmp_path / "work" / "nets" / "sigma-0.1.safetensors")[0]
    assert fingerprint(sx.Smoothed(full, sigma=0.1, classes=10)) != runs[0].plan.system


def test_a_dry_run_may_name_a_device_of_another_machine(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("needs a machine without CUDA")
    said = []
    config = replace(pipeline(tmp_path, CONFIG, ["device=cuda"]).config, out=tmp_path / "elsewhere")
    made = Pipeline(config, on_warning=said.append)
    made.check(devices=False)
    assert len(said) == 1
    assert said[0].startswith("device 'cuda' cannot be used")
    with pytest.raises(RequestError, match="device 'cuda' cannot be used"):
        made.check()
