"""Leans: the trade of trained routers, moved on images that nobody was trained on."""

import json

import numpy as np
import pytest
import torch
from scipy.special import ndtri

import sigmax as sx
from sigmax import models
from sigmax.errors import RequestError
from sigmax.models import Description
from sigmax.train import Pipeline, PipelineConfig
from sigmax.train.balance import (
    RIVALS,
    ROUTERS,
    Proof,
    Votes,
    accuracy,
    best_leans,
    counted,
    expert_radii,
    lean,
    named_radii,
    routed_radii,
)
from sigmax.train.pipeline_tree import tree
from tests.train.test_pipeline import Bars, Killed, contents
from tests.train.test_pipeline_parts import TREE

BALANCED = f"""{TREE.replace("[data]", "[data]" + chr(10) + "held_out = 0.1")}
[balance]
goal = [90, 40, 20]
radii = [0, 0.1, 0.2]
draws = 20
"""


def drawn(shares, draws=1000):
    """Logits whose leaders come in these shares, (images, draws, classes)."""
    shares = np.asarray(shares)
    first = (np.linspace(0, 1, draws, endpoint=False)[None, :, None] >= np.cumsum(shares, axis=1)[:, None, :]).sum(
        2
    )
    return np.eye(shares.shape[1], dtype=np.float32)[first]


def test_many_draws_tell_what_n_would_show():
    """Few draws leave shares open, and d of d least of all means n of n; many leave the bound of that share."""
    proof, n = Proof(10_000, 1e-3), 10_000
    shares = np.array([0.5, 0.9, 0.999, 1.0])
    found = proof.z((shares * 10**9).astype(np.int64), 10**9)
    assert found == pytest.approx(ndtri(sx.bounds.lower((shares * n).astype(np.int64), n, 1e-3)), abs=1e-9)
    few, certain = proof.z(np.full(5000, 500), 500), found[-1]
    assert few.max() == certain
    assert 0.4 < np.mean(few == certain) < 0.9
    assert np.mean(few > certain - 0.3) < 0.99
    assert not np.array_equal(few, Proof(10_000, 1e-3, network=1).z(np.full(5000, 500), 500))


def test_experts_certify_only_the_true_class():
    proof = Proof(10_000, 1e-3)
    shares, labels = [[0.98, 0.02], [0.6, 0.4], [0.3, 0.7], [0.505, 0.495]], np.array([0, 0, 0, 0])
    found = expert_radii(drawn(shares), labels, 0.5, proof)
    whole = 0.5 * proof.z(np.array([980, 600, 300, 505]), 1000)
    assert found[:2] == pytest.approx(whole[:2])
    assert found[0] > 0.9
    assert 0.05 < found[1] < 0.2
    assert found[2] == 0, "a wrong class is not certified"
    assert found[3] == 0, "nor one that is not shown to lead"


def test_experts_that_bound_the_runner_up_need_no_majority():
    proof = Proof(10_000, 1e-3)
    shares = [[0.45, 0.3, 0.25], [0.9, 0.1, 0.0], [0.3, 0.4, 0.3]]
    found = expert_radii(drawn(shares), np.zeros(3, dtype=int), 0.5, proof, "runner-up")
    half = Proof(10_000, 5e-4)
    assert found[0] == pytest.approx(
        0.25 * (half.z(np.array([450, 1, 1]), 1000)[0] + half.z(np.array([700, 1, 1]), 1000)[0])
    )
    assert 0.05 < found[0] < 0.15
    assert found[1] == pytest.approx(0.5 * half.z(np.array([1, 900, 1]), 1000)[1]), "of two classes it is one-sided"
    assert found[2] == 0
    assert expert_radii(drawn(shares), np.zeros(3, dtype=int), 0.5, proof)[0] == 0


def test_a_routers_radius_is_the_consensus_rules():
    """Two routes: past the router's own radius both experts must hold, within it the chosen one is enough."""
    proof = Proof(10_000, 1e-3)
    counts = counted(drawn([[0.9, 0.1]] * 3))
    own = 0.5 * proof.z(np.full((3, 1), 900), 1000)[:, 0]
    below = np.array([[2.0, 0.0], [0.1, 5.0], [2.0, 1.0]])
    assert 0.5 < own[0] < 0.7
    assert routed_radii(counts, 0.5, below, proof) == pytest.approx([own[0], 0.1, 1.0])
    torn = counted(drawn([[0.5, 0.5]] * 500))
    reached = routed_radii(torn, 0.5, np.tile([0.3, 0.0], (500, 1)), proof)
    assert reached.max() < 0.05, "a router that takes either route is far from neither"


def named_by_hand(counts, labels, sigma, below, proof):
    """One image after another, one wrong class after another."""
    draws, classes = counts[0].sum(), counts.shape[1] - 1
    true = Proof(proof.n, proof.alpha / 2, proof.network).z(counts[np.arange(len(counts)), labels], draws)
    wrong = Proof(proof.n, proof.alpha / 2, proof.network + RIVALS)
    apart = np.stack([wrong.z(draws - counts[:, c], draws) for c in range(classes)], axis=1)
    for i, label in enumerate(labels):
        none_wrong = min(apart[i, c] for c in range(classes) if c != label)
        yield max(sigma * true[i], min(sigma * none_wrong, below[i]), 0.0)


@pytest.mark.parametrize("classes", [2, 10])
def test_naming_routers_certify_by_a_majority_or_leave_it_below(classes):
    rng, proof = np.random.default_rng(classes), Proof(1000, 1e-3, network=3)
    shares = rng.dirichlet(np.full(classes + 1, 0.15), size=400)
    counts = np.stack([rng.multinomial(200, share) for share in shares])
    labels, below = rng.integers(classes, size=400), rng.choice([0.0, 0.2, 0.7, 3.0], size=400)
    counts[:40] = 200 * np.eye(classes + 1, dtype=np.int64)[classes]
    counts[40:80] = 200 * np.eye(classes + 1, dtype=np.int64)[labels[40:80]]
    found = named_radii(counts, labels, 0.5, below, proof)
    assert found == pytest.approx(list(named_by_hand(counts, labels, 0.5, below, proof)), abs=1e-12)
    assert found.min() == 0
    named, passed = counts[np.arange(400), labels] == 200, counts[:, -1] == 200
    assert (found[named] > 0.3).all(), "a class named by all is certified whatever is below"
    assert (found[passed] == np.minimum(found[passed], below[passed])).all(), "what passes is certified as below"
    assert found[passed & (below > 0)].min() == 0.2
    wrong = counts[:, :-1].max(axis=1) > np.maximum(counts[np.arange(400), labels], 120)
    assert wrong.sum() > 50
    assert (found[wrong] == 0).all(), "a wrong majority is not certified, whatever is below"


def test_the_majority_and_the_rest_are_lucky_on_different_images():
    """Torn between one wrong class and passing: what is left of W tells nothing of what R would have been."""
    proof, labels = Proof(10_000, 1e-3), np.zeros(2000, dtype=np.int64)
    right = named_radii(np.tile([400, 0, 100], (2000, 1)), labels, 1.0, np.zeros(2000), proof)
    passing = named_radii(np.tile([0, 100, 400], (2000, 1)), labels, 1.0, np.full(2000, 9.0), proof)
    assert abs(np.corrcoef(right, passing)[0, 1]) < 0.1
    assert right.mean() == pytest.approx(passing.mean(), abs=0.01)


def test_accuracy_at_radius_zero_counts_no_abstention():
    assert accuracy(np.array([0.0, 0.1, 0.2]), (0.0, 0.1, 0.15)).tolist() == pytest.approx(
        [200 / 3, 200 / 3, 100 / 3]
    )


def test_leans_reach_the_goal_that_the_routers_missed():
    """Both routers take the wrong side everywhere by a little; the best leans repair all of it."""
    rng = np.random.default_rng(0)
    far = rng.random(400) < 0.5  # images that only the second expert of each pair certifies far
    experts = [np.where(far, 0.05, 0.3), np.where(far, 0.6, 0.0), np.where(far, 0.6, 0.0)]
    noise = rng.normal(size=(400, 64, 2)) * 0.2
    towards = np.where(far, 1.0, -1.0)[:, None, None] * np.array([-0.5, 0.5])
    logits = (noise + towards + np.array([0.9, -0.9])).astype(np.float32)
    votes = Votes(experts, {0: (logits, 0.6), None: (logits, 0.6)}, Proof(1000, 1e-3))
    here = tree(3, [[0, 1]])
    before = accuracy(votes.radii(here, {0: 0.0, None: 0.0}), (0.0, 0.3, 0.6))
    leans, after = best_leans(here, votes, (0.0, 0.3, 0.6), (99, 50, 10))
    assert before[2] == 0
    assert after.min() > 40
    assert after[0] == 100
    assert all(by > 0.5 for by in leans.values())


def naming_votes(seed=0):
    """Two naming routers, one above the other, that pass too often; the least noise knows every image a little."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=300)
    far = rng.random(300) < 0.6  # images that a network under much noise tells right
    said = np.where(far, labels, (labels + 1) % 3)
    odds = np.where(far, 1.0, -2.0)[:, None] + 0.3 * rng.normal(size=(300, 64))
    logits = np.full((300, 64, 4), -8.0)
    logits[:, :, 3] = 1.6
    logits[np.arange(300), :, said] = odds
    table = logits.astype(np.float32)
    experts = [np.full(300, 0.1), np.zeros(300), np.zeros(300)]
    return Votes(
        experts, {0: (table, 0.3), None: (table, 0.6)}, Proof(1000, 1e-3), labels=labels, names=frozenset({None, 0})
    )


def test_leans_make_naming_routers_answer():
    votes, here, at = naming_votes(), tree(3, [[0, 1]]), (0.0, 0.5, 1.0)
    goal = (95, 50, 40)
    before = accuracy(votes.radii(here, {0: 0.0, None: 0.0}), at)
    leans, after = best_leans(here, votes, at, goal)
    assert before.tolist() == [100, 0, 0]
    assert (after - goal).min() > max((before - goal).min(), 0)
    assert after[0] == 100, "no image is named a wrong class that passed before"
    assert leans[None] > 0.5


def test_a_naming_router_in_a_tree_asks_only_what_is_below():
    votes, here = naming_votes(), tree(3, [[0, 1]])
    inner, proof = here.routes[0], votes.proof
    leans = {0: 1.0, None: 2.0}
    counts = {node: counted(votes.routers[node][0], by, names=True) for node, by in leans.items()}
    lower = named_radii(
        counts[0], votes.labels, 0.3, votes.experts[0], Proof(proof.n, proof.alpha, network=ROUTERS + 1)
    )
    assert np.array_equal(votes.radii(inner, leans), lower)
    whole = named_radii(counts[None], votes.labels, 0.6, lower, Proof(proof.n, proof.alpha, network=ROUTERS))
    assert np.array_equal(votes.radii(here, leans), whole)
    with pytest.raises(RequestError, match="judged by labels; give labels="):
        Votes(votes.experts, votes.routers, proof, names=frozenset({None}))


def test_naming_below_a_router_of_routes():
    """Routers of both kinds in one tree; the one of routes is as it always was."""
    votes, here, leans = naming_votes(), tree(3, [[0, 1]]), {0: 1.0, None: 0.5}
    routes = votes.routers[0][0][:, :, :2]
    mixed = Votes(
        votes.experts,
        {0: votes.routers[0], None: (routes, 0.6)},
        votes.proof,
        labels=votes.labels,
        names=frozenset({0}),
    )
    below = np.stack([votes.radii(here.routes[0], leans), votes.experts[2]], axis=1)
    proof = Proof(votes.proof.n, votes.proof.alpha, network=ROUTERS)
    assert np.array_equal(mixed.radii(here, leans), routed_radii(counted(routes, 0.5), 0.6, below, proof))


@pytest.mark.parametrize("names", [False, True])
@pytest.mark.parametrize("by", [-3.0, -1.5, 0.3])
def test_what_is_counted_is_what_a_leaning_router_votes(names, by):
    torch.manual_seed(0)
    told = Description(architecture="small-cnn", options={"width": 4}, classes=4, input_shape=(1, 8, 8))
    router = models.sureness(models.create(told), names=names)
    x = 200 * torch.randn(20 * 16, 1, 8, 8)
    with torch.no_grad():
        expected = counted(router(x).view(20, 16, -1).numpy(), by, names=names)
        lean(router, by)
        found = counted(router(x).view(20, 16, -1).numpy())
    assert np.array_equal(found, expected)
    assert found.shape == (20, 5 if names else 2)
    assert (found.sum(axis=0) > 0).sum() > 1


def test_a_lean_is_a_change_of_the_last_layers_bias():
    made = models.create(
        Description(architecture="small-cnn", options={"width": 4}, classes=3, input_shape=(1, 8, 8))
    )
    x = torch.rand(5, 1, 8, 8)
    with torch.no_grad():
        before = made(x)
        lean(made, 0.5)
        after = made(x)
    assert (after - before).numpy() == pytest.approx(np.tile([-0.5, 0.0, 0.5], (5, 1)), abs=1e-6)


def test_networks_that_cannot_lean_are_refused():
    class Backwards(torch.nn.Module):
        """Something comes after its linear layer."""

        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(64, 2)

        def forward(self, images):
            return -self.linear(images.flatten(1))

    told = Description(architecture="small-cnn", classes=2, input_shape=(1, 8, 8))
    with pytest.raises(RequestError, match="last layer's biases are added"):
        lean(models.Classifier(Backwards(), told), 1.0)
    bare = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 8), torch.nn.Flatten())
    with pytest.raises(RequestError, match="a bias for each route"):
        lean(models.Classifier(bare, told), 1.0)


def pipeline(folder, changes=()):
    (folder / "pipe.toml").write_text(BALANCED)
    return Pipeline(PipelineConfig.read(folder / "pipe.toml", changes))


def test_a_pipeline_balances_its_routers_last(tmp_path):
    """Chosen once, kept, put into the systems and into nothing that routers are trained on."""
    with pytest.raises(Killed):
        pipeline(tmp_path).run(Bars("balance routers", 2))
    made = pipeline(tmp_path)
    assert {phase.name: phase.state for phase in made.phases()}["balance routers"] == "to do"
    runs = made.run(Bars())
    assert all(phase.state == "done" for phase in made.phases())
    told = json.loads((tmp_path / "work/leans.json").read_text())
    assert set(told["leans"]) == {"router", "0"}
    assert len(told["promised"]) == 3
    router, _ = models.load(tmp_path / "work/nets/router-1.safetensors")
    used, _ = models.load(tmp_path / "work/systems/dual-consensus/router.safetensors")
    last = [name for name in router.network.state_dict() if name.endswith("bias")][-1]
    moved = used.network.state_dict()[last] - router.network.state_dict()[last]
    by = told["leans"]["router"]
    assert moved.tolist() == pytest.approx([-by / 2, by / 2], abs=1e-6)
    kept = contents(tmp_path / "work")
    assert len(pipeline(tmp_path).run(Bars())) == len(runs)
    assert contents(tmp_path / "work") == kept


SURE = """
out = "work"
[data]
source = "digits"
held_out = 0.1
[experts]
sigmas = [0.1, 0.2, 0.4]
options.width = 4
training = {epochs = 4, batch = 32}
[router]
sigma = 0.4
sure_of = 2
[[inner]]
experts = [0, 1]
sigma = 0.2
sure_of = 1
[balance]
goal = [90, 40, 20]
radii = [0, 0.1, 0.2]
draws = 20
[certify]
n0 = 20
n = 100
skip = 60
"""


def sure(folder, changes=()):
    (folder / "pipe.toml").write_text(SURE)
    return Pipeline(PipelineConfig.read(folder / "pipe.toml", changes))


def test_routers_of_sureness_need_neither_labels_nor_training(tmp_path):
    made = sure(tmp_path)
    runs = made.run(Bars())
    assert [phase.name for phase in made.phases()][3:6] == [
        "make router-1-inner-0",
        "make router-1",
        "balance routers",
    ]
    assert not (tmp_path / "work/labels-1").exists()
    assert all(sx.verify(run.path).holds for run in runs)
    leans = json.loads((tmp_path / "work/leans.json").read_text())["leans"]
    folder = tmp_path / "work/systems/dual-consensus"
    router, told = models.load(folder / "router.safetensors", part=("classifier", folder / "expert-1.safetensors"))
    assert router.network.bias.tolist() == [-leans["router"] / 2, leans["router"] / 2]
    expert, _ = models.load(tmp_path / "work/nets/sigma-0.4.safetensors")
    assert torch.equal(router.network.classifier.linear.weight, expert.network.linear.weight)
    assert told.sigma == 0.4
    kept = contents(tmp_path / "work")
    sure(tmp_path).run(Bars())
    assert contents(tmp_path / "work") == kept


def test_routers_that_name_answer_for_their_expert(tmp_path):
    made = sure(
        tmp_path, ["router.names=true", "inner=[{experts = [0, 1], sigma = 0.2, sure_of = 1, names = true}]"]
    )
    runs = made.run(Bars())
    assert all(sx.verify(run.path).holds for run in runs)
    system = sx.load(tmp_path / "work/systems/dual-consensus")
    assert repr(system) == (
        "Dual(consensus, router sigma 0.4 names or passes to "
        "(consensus, router sigma 0.2 names or passes to 0.1), 10 classes)"
    )
    assert {path.stem for path in (tmp_path / "work/systems/dual-consensus").glob("*.safetensors")} == {
        "router",
        "expert-0-router",
        "expert-0-expert-0",
    }
    kept = contents(tmp_path / "work")
    made.run(Bars())
    assert contents(tmp_path / "work") == kept
    with pytest.raises(RequestError, match="holds another pipeline"):
        sure(tmp_path).run(Bars())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("router.names=maybe", "names"),
        ("inner=[{experts = [0, 1], sigma = 0.2, sure_of = 2, names = true}]", "the last route is .1."),
        ("router={sigma = 0.4, names = true}", "set sure_of to its place"),
        ("router.sure_of=3", "place, 0 to 2, of an expert that is trained here"),
        ("router.objective=certified", "trains nothing; leave out objective"),
        ("router.start=2", "trains nothing; leave out start"),
        ("inner=[]", "between two routes, in one step .* got 3 routes"),
        ("experts.one_network=true", "a network of its own"),
        ("labels.folds=2", "none does here"),
    ],
)
def test_impossible_sureness_is_refused(tmp_path, change, message):
    with pytest.raises(RequestError, match=message):
        sure(tmp_path, [change])


def test_another_goal_is_refused_before_anything_is_lost(tmp_path):
    with pytest.raises(Killed):
        pipeline(tmp_path).run(Bars("certify sigma-0.1", 1))
    with pytest.raises(RequestError, match="holds another pipeline"):
        pipeline(tmp_path, ["balance.goal=[1, 1, 1]"]).run(Bars())


def test_leans_know_what_they_were_chosen_for(tmp_path):
    with pytest.raises(Killed):
        sure(tmp_path).run(Bars("certify sigma-0.1", 1))
    kept = (tmp_path / "work/leans.json").read_text()
    (tmp_path / "work/pipeline.json").unlink()
    for change in ("certify.n=200", "certify.seed=1", "balance.draws=10"):
        with pytest.raises(RequestError, match="other networks, images, votes or another goal"):
            sure(tmp_path, [change]).run(Bars())
        (tmp_path / "work/pipeline.json").unlink()
    for broken in ("", "{}", '{"leans": 3, "plan": {}}'):
        (tmp_path / "work/leans.json").write_text(broken)
        with pytest.raises(RequestError, match="is damaged; delete it"):
            sure(tmp_path).run(Bars())
    (tmp_path / "work/leans.json").unlink()
    with pytest.raises(Killed):
        sure(tmp_path).run(Bars("certify sigma-0.1", 1))
    assert (tmp_path / "work/leans.json").read_text() == kept


def test_certifying_the_images_of_the_choice_is_warned_of(tmp_path):
    (tmp_path / "pipe.toml").write_text(SURE)
    warned = []
    Pipeline(PipelineConfig.read(tmp_path / "pipe.toml", ["data.test=train"]), on_warning=warned.append).check()
    assert any("chooses on the same images" in warning for warning in warned)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("balance.goal=[1, 2]", "one number for each of the 3 radii; got 2"),
        ("balance.goal=", "balance.goal is missing"),
        ("balance.draws=0", "draws must be at least 1"),
        ("data.held_out=0.0", "set data.held_out"),
        ("labels.inner=measured", "labels of experts"),
    ],
)
def test_impossible_balances_are_refused(tmp_path, change, message):
    with pytest.raises(RequestError, match=message):
        pipeline(tmp_path, [change])
