"""Routed systems as folders: networks kept once, whole trees of schemes, and folders that are not what they say."""

import tomllib

import pytest
import tomli_w
import torch
from hypothesis import given, settings
from torch import nn

import sigmax as sx
from sigmax import models
from sigmax.engine.voter import Voter
from sigmax.models import Description
from sigmax.rules.registry import rebuild
from sigmax.systems import fingerprint
from tests.records.helpers import trees

X = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
SAMPLES = {"n0": 20, "n": 300, "alpha": 0.05}


def network(seed: int, classes: int = 10) -> nn.Module:
    torch.manual_seed(seed)
    return models.create(
        Description(
            architecture="small-cnn",
            classes=classes,
            input_shape=(1, 8, 8),
            options={"width": 4},
            normalisation=models.Normalisation(mean=(0.3,), std=(0.2,)),
        )
    )


def router(seed: int, routes: int) -> sx.Smoothed:
    return sx.Smoothed(network(seed, routes), sigma=0.5, classes=routes, bound="runner-up")


def shared(rule="consensus") -> sx.Dual:
    """Two experts over one network, and one over its own."""
    one = network(0)
    experts = [sx.Smoothed(net, sigma=s, classes=10) for net, s in ((one, 0.12), (one, 0.25), (network(1), 0.5))]
    return sx.Dual(router(2, 3), experts, rule=rule)


def tree() -> sx.Dual:
    """A system within a system, a deterministic expert, and one network in four places."""
    one = network(0)
    inner = sx.Dual(
        router(3, 2), [sx.Smoothed(one, sigma=0.25, classes=10), sx.Lipschitz(one, 30.0, classes=10)], rule="min"
    )
    return sx.Dual(router(2, 3), [sx.Smoothed(one, sigma=0.5, classes=10), inner, sx.Lipschitz(one, 7.5, classes=10)])


SYSTEMS = {"shared": shared, "min": lambda: shared("min"), "tree": tree}
FILES = {
    "shared": {"router", "expert-0", "expert-2"},
    "min": {"router", "expert-0", "expert-2"},
    "tree": {"router", "expert-0", "expert-1-router"},
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_saved_system_certifies_and_predicts_the_same(tmp_path, name):
    original = SYSTEMS[name]()
    original.save(tmp_path / "system")
    assert {path.stem for path in (tmp_path / "system").glob("*.safetensors")} == FILES[name]
    loaded = sx.load(tmp_path / "system")
    assert isinstance(loaded, sx.Dual)
    assert loaded.rule == original.rule
    assert fingerprint(loaded) == fingerprint(original)
    assert [fingerprint(e) for e in loaded.experts] == [fingerprint(e) for e in original.experts]
    assert loaded.certify(X, **SAMPLES) == original.certify(X, **SAMPLES)
    assert loaded.predict(X, seed=1) == original.predict(X, seed=1)
    loaded.save(tmp_path / "again")
    for path in (tmp_path / "system").iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()


def test_a_shared_network_is_one_voter_again(tmp_path):
    shared().save(tmp_path / "system")
    voters = sx.load(tmp_path / "system").voters
    assert voters["expert-0/base"] is voters["expert-1/base"]
    assert voters["expert-2/base"] is not voters["expert-0/base"]
    tree().save(tmp_path / "tree")
    voters = sx.load(tmp_path / "tree", batch=64).voters
    assert voters["expert-0/base"] is voters["expert-1/expert-0/base"]
    assert voters["expert-2/base"] is voters["expert-1/expert-1/base"]
    # A network that is looked at and one that votes are asked in different ways, but it is the same network.
    assert voters["expert-2/base"] is not voters["expert-0/base"]
    assert voters["expert-2/base"].model is voters["expert-0/base"].model


def test_a_loaded_tree_votes_in_the_precision_asked_for_and_looks_in_32_bits(tmp_path):
    tree().save(tmp_path / "system")
    voters: dict[str, Voter] = sx.load(tmp_path / "system", dtype=torch.bfloat16).voters
    kinds = {name: voter.dtype for name, voter in voters.items()}
    assert kinds.pop("expert-2/base") is kinds.pop("expert-1/expert-1/base") is torch.float32
    assert set(kinds.values()) == {torch.bfloat16}


def test_everything_that_decides_a_certificate_is_in_the_fingerprint():
    one, other = network(0), network(1)

    def two(rule="consensus", first=one, second=one, sigma=0.25, constant=1.0):
        experts = [
            sx.Smoothed(first, sigma=sigma, classes=10),
            sx.Smoothed(second, sigma=0.5, classes=10),
            sx.Lipschitz(one, constant, classes=10),
        ]
        return sx.Dual(router(2, 3), experts, rule=rule)

    systems = [two(), two("min"), two(first=other), two(second=other), two(sigma=0.12), two(constant=2.0)]
    assert len({fingerprint(system) for system in systems}) == len(systems)
    assert fingerprint(two()) == fingerprint(two())


def test_saving_the_same_again_is_fine_and_another_is_refused(tmp_path):
    shared().save(tmp_path / "system")
    shared().save(tmp_path / "system")
    with pytest.raises(sx.RequestError, match="holds another system"):
        shared("min").save(tmp_path / "system")


# Folders that are not what they say


@pytest.fixture
def folder(tmp_path):
    return tree().save(tmp_path / "system")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (('rule = "consensus"', 'rule = "min"'), "was changed since the system was built"),
        (('rule = "consensus"', 'rule = "max"'), "rule must be one of consensus, min"),
        (("constant = 7.5", "constant = 0.5"), "was changed since the system was built"),
        (("constant = 7.5", "constant = -1.0"), "constant must be a positive number"),
        (("sigma = 0.25", "sigma = 0.3"), "was changed since the system was built"),
        (('bound = "one-sided"', 'bound = "runner-up"'), "was changed since the system was built"),
        (("[scheme.router]", "[scheme.route]"), "lacks router"),
        (('scheme = "lipschitz"', 'scheme = "smoothed"'), "lacks noise, bound"),
        (('scheme = "lipschitz"', 'scheme = ["lipschitz"]'), r"unknown scheme \['lipschitz'\]"),
        (('scheme = "dual"', 'scheme = "smoothed"'), "lacks noise, bound"),
        (('file = "expert-1-router.safetensors"', 'file = "router.safetensors"'), "the system has 2 classes, the net"),
        (('file = "expert-1-router.safetensors"', 'file = "../x.safetensors"'), "lie in the folder itself"),
        (('file = "expert-1-router.safetensors"', "file = 7"), "names no file and fingerprint"),
        (('[networks."expert-1/router/base"]', '[networks."expert-1/rooter/base"]'), "names no file"),
    ],
)
def test_an_edited_head_is_noticed(folder, edit, message):
    head = folder / "system.toml"
    before = head.read_text()
    assert edit[0] in before
    head.write_text(before.replace(*edit))
    with pytest.raises(sx.RequestError, match=message):
        sx.load(folder)


@pytest.mark.parametrize("entry", ['["a"]', "{}", "5", "true"])
def test_a_fingerprint_that_is_no_text_is_noticed(folder, entry):
    head = folder / "system.toml"
    lines = [
        f"fingerprint = {entry}" if line.startswith("fingerprint") else line for line in head.read_text().splitlines()
    ]
    head.write_text("\n".join(lines))
    with pytest.raises(sx.RequestError, match="not the network the system was built with"):
        sx.load(folder)


@pytest.mark.parametrize("name", ["router", "expert-0", "expert-1-router"])
def test_a_missing_or_exchanged_file_is_noticed(folder, name):
    file = folder / f"{name}.safetensors"
    file.rename(folder / "elsewhere")
    with pytest.raises(sx.RequestError, match=f"there is no checkpoint .*{name}"):
        sx.load(folder)
    classes = {"router": 3, "expert-0": 10, "expert-1-router": 2}[name]
    models.save(file, network(9, classes))
    with pytest.raises(sx.RequestError, match="not the network the system was built with"):
        sx.load(folder)
    file.write_bytes(b"nonsense")
    with pytest.raises(sx.RequestError, match="not a safetensors file"):
        sx.load(folder)


def test_two_experts_that_changed_places_are_noticed(tmp_path):
    experts = [sx.Smoothed(network(seed), sigma=0.5, classes=10) for seed in (0, 1)]
    sx.Dual(router(2, 2), experts).save(tmp_path)
    first, second = tmp_path / "expert-0.safetensors", tmp_path / "expert-1.safetensors"
    first.rename(tmp_path / "aside")
    second.rename(first)
    (tmp_path / "aside").rename(second)
    with pytest.raises(sx.RequestError, match="not the network the system was built with"):
        sx.load(tmp_path)


def test_routers_below_routers_without_end_are_refused(folder):
    deep = '{scheme = "dual", rule = "min", classes = 2, router = {scheme = "dual"}, experts = ['
    for depth in (30, 150):
        (folder / "system.toml").write_text(f"format = 2\nscheme = {deep * depth}{']}' * depth}\n")
        with pytest.raises(sx.RequestError):
            sx.load(folder)


def test_an_expert_that_cannot_be_kept_is_refused_before_anything_is_written(tmp_path):
    own = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    system = sx.Dual(router(2, 2), [sx.Smoothed(net, sigma=0.5, classes=10) for net in (network(0), own)])
    with pytest.raises(sx.RequestError, match="'expert-1/base' .Sequential. cannot be saved") as refused:
        system.save(tmp_path / "system")
    assert "Export it and open the file with sigmax.models.open_program" in str(refused.value)
    assert "sx.certify_run" in str(refused.value)
    assert not (tmp_path / "system").exists()


@settings(deadline=None, max_examples=50)
@given(trees)
def test_the_description_of_any_tree_is_read_back_as_it_was(rule):
    described = {"format": 2, "scheme": dict(rule.describe())}
    assert tomllib.loads(tomli_w.dumps(described)) == described
    assert rebuild(described["scheme"]) == rule
