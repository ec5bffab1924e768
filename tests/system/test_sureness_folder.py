"""Systems whose router is an expert's sureness: the network is kept once, and nothing else of it changes."""

import pytest
import torch
from safetensors.torch import load_file, save_file

import sigmax as sx
from sigmax import models
from sigmax.system import fingerprint
from tests.system.test_dual_folder import DRAWS, X, network


def sure(about: models.Classifier, lean: float = 0.7) -> sx.Smoothed:
    router = models.sureness(about)
    with torch.no_grad():
        router.network.bias[1] += lean
    return sx.Smoothed(router, sigma=0.5, classes=2)


def tree() -> sx.Dual:
    """Both routers are the sureness of an expert below them."""
    low, middle, high = (network(seed) for seed in range(3))
    experts = [sx.Smoothed(net, sigma=s, classes=10) for net, s in ((low, 0.12), (middle, 0.25), (high, 0.5))]
    return sx.Dual(sure(high), [sx.Dual(sure(middle, -0.2), experts[:2]), experts[2]])


def say_elsewhere(folder, file: str) -> None:
    """Edit which file has the network of the outer router."""
    head = folder / "system.toml"
    before, said = head.read_text(), 'classifier = "expert-1.safetensors"'
    assert said in before
    head.write_text(before.replace(said, f'classifier = "{file}"'))


@pytest.mark.parametrize("store", ["fp32", "bf16"])
def test_the_routers_files_hold_what_is_their_own(tmp_path, store):
    system, folder = tree(), tmp_path / "s"
    system.save(folder, store=store)
    assert list(load_file(folder / "router.safetensors")) == ["bias"]
    assert list(load_file(folder / "expert-0-router.safetensors")) == ["bias"]
    again = sx.load(folder)
    assert again.voters["router/base"].model.network.bias[1].item() == pytest.approx(0.7)
    if store == "fp32":
        assert fingerprint(again) == fingerprint(system)
    assert again.certify(X, **DRAWS, seed=3) == sx.load(folder).certify(X, **DRAWS, seed=3)
    again.save(tmp_path / "t", store=store)
    assert fingerprint(sx.load(tmp_path / "t")) == fingerprint(again)


def test_votes_are_those_of_the_system_that_was_saved(tmp_path):
    system = tree()
    system.save(tmp_path / "s")
    assert sx.load(tmp_path / "s").certify(X, **DRAWS, seed=3) == system.certify(X, **DRAWS, seed=3)


def test_sureness_of_a_network_outside_the_system_is_kept_whole(tmp_path):
    experts = [sx.Smoothed(network(seed), sigma=0.25, classes=10) for seed in range(2)]
    sx.Dual(sure(network(7)), experts).save(tmp_path / "s")
    assert len(load_file(tmp_path / "s" / "router.safetensors")) > 1
    sx.load(tmp_path / "s")


def test_saving_that_was_cut_short_is_completed(tmp_path):
    system, folder = tree(), tmp_path / "s"
    system.save(folder)
    (folder / "system.toml").unlink()
    for late in ("router", "expert-0-router"):
        (folder / f"{late}.safetensors").unlink()
        system.save(folder)
        (folder / "system.toml").unlink()
    system.save(folder)
    sx.load(folder)


def test_another_lean_in_the_folder_is_another_network(tmp_path):
    system, folder = tree(), tmp_path / "s"
    system.save(folder)
    (folder / "system.toml").unlink()
    changed = models.sureness(network(2))
    models.save(folder / "router.safetensors", changed, without="classifier")
    with pytest.raises(sx.RequestError, match="router.safetensors exists and is another network"):
        system.save(folder)


def test_an_exchanged_expert_is_noticed_by_its_router(tmp_path):
    folder = tmp_path / "s"
    tree().save(folder)
    head = folder / "system.toml"
    head.write_text(
        head.read_text().replace(
            'classifier = "expert-1.safetensors"', 'classifier = "expert-0-expert-1.safetensors"'
        )
    )
    with pytest.raises(sx.RequestError, match="router.safetensors is not the network the system was built with"):
        sx.load(folder)


def test_the_part_lies_in_the_folder(tmp_path):
    folder = tmp_path / "s"
    tree().save(folder)
    head = folder / "system.toml"
    head.write_text(
        head.read_text().replace('classifier = "expert-1.safetensors"', 'classifier = "../expert-1.safetensors"')
    )
    with pytest.raises(sx.RequestError, match="network files lie in the folder itself"):
        sx.load(folder)


def test_a_missing_part_is_named(tmp_path):
    folder = tmp_path / "s"
    tree().save(folder)
    tensors = load_file(folder / "router.safetensors")
    models.save(folder / "expert-1.safetensors", network(5))
    with pytest.raises(sx.RequestError, match="is not the network the system was built with"):
        sx.load(folder)
    (folder / "expert-1.safetensors").unlink()
    with pytest.raises(sx.RequestError, match="there is no checkpoint .*expert-1"):
        sx.load(folder)
    save_file(tensors, folder / "router.safetensors")
    with pytest.raises(sx.RequestError, match="holds tensors but not what they are"):
        sx.load(folder)
