import pytest
import torch

from sigmax.errors import RequestError, RunError
from sigmax.train import Partial

PLAN = {"settings": {"lr": 0.1, "epochs": 3}, "data": {"fingerprint": "abc"}}


def test_what_was_saved_is_loaded(tmp_path):
    partial = Partial(tmp_path / "x.partial", PLAN)
    assert partial.load() is None
    partial.save({"epoch": 1, "weights": {"a": torch.arange(3)}})
    partial.save({"epoch": 2, "weights": {"a": torch.arange(4)}})
    found = partial.load()
    assert found["epoch"] == 2
    assert torch.equal(found["weights"]["a"], torch.arange(4))
    partial.remove()
    partial.remove()
    assert list(tmp_path.iterdir()) == []


def test_another_plan_is_refused_with_all_that_differs(tmp_path):
    Partial(tmp_path / "x.partial", PLAN).save({})
    other = {"settings": {"lr": 0.2, "epochs": 3}, "data": {"fingerprint": "abd"}, "sigma": 1.0}
    with pytest.raises(RequestError) as caught:
        Partial(tmp_path / "x.partial", other).load()
    message = str(caught.value)
    for part in (
        "settings.lr is 0.1 there and 0.2 here",
        "data.fingerprint is 'abc' there and 'abd' here",
        "sigma is not given there and 1.0 here",
        "Delete it, or choose another output",
    ):
        assert part in message
    assert "epochs" not in message


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04 cut"])
def test_a_damaged_file_is_not_mistaken_for_a_fresh_start(tmp_path, content):
    path = tmp_path / "x.partial"
    path.write_bytes(content)
    with pytest.raises(RequestError, match="damaged; delete it to train from the start"):
        Partial(path, PLAN).load()


def test_a_state_that_cannot_be_written_leaves_the_last(tmp_path, monkeypatch):
    partial = Partial(tmp_path / "x.partial", PLAN)
    partial.save({"epoch": 1})

    def full_disk(content, draft):
        draft.write_bytes(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(torch, "save", full_disk)
    with pytest.raises(RunError, match="no space left"):
        partial.save({"epoch": 2})
    assert partial.load() == {"epoch": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["x.partial"]


def test_a_state_that_takes_long_to_write_is_not_written_after_every_epoch(tmp_path, monkeypatch):
    """At most a twentieth of the time is spent on it; what is quick, and the last one, is always kept."""
    now = [0.0]
    monkeypatch.setattr("sigmax.train.loop.partial.perf_counter", lambda: now[0])
    monkeypatch.setattr("sigmax.train.loop.partial.QUICK", 0.05)

    class Timed(Partial):
        takes = 0.5

        def save(self, state):
            now[0] += self.takes
            super().save(state)

    partial, kept = Timed(tmp_path / "x.partial", PLAN), []
    for epoch in range(40):
        now[0] += 1.0
        partial.keep(lambda epoch=epoch: {"epoch": epoch}, last=epoch == 39)
        kept.append(partial.load()["epoch"])
    assert kept == [0] * 10 + [10] * 10 + [20] * 10 + [30] * 9 + [39]
    partial.takes = 0.01
    partial._cost[:] = 0.0, 0.0
    for epoch in range(3):
        now[0] += 0.02
        partial.keep(lambda epoch=epoch: {"epoch": epoch}, last=False)
        assert partial.load()["epoch"] == epoch


def test_what_is_not_written_is_held_until_the_run_ends(tmp_path, monkeypatch):
    """As it was after its epoch, though the run has changed its tensors since."""
    monkeypatch.setattr("sigmax.train.loop.partial.QUICK", -1.0)  # no state is quick to write
    monkeypatch.setattr("sigmax.train.loop.partial.SHARE", 1e-9)
    partial, weights = Partial(tmp_path / "x.partial", PLAN), torch.zeros(3)
    partial.keep_held()
    assert partial.load() is None
    for epoch in range(3):
        weights += 1
        state = {"epoch": epoch, "nested": [{"weights": weights}]}
        partial.keep(lambda state=state: state, last=False)
    assert partial.load()["epoch"] == 0
    weights += 1
    partial.keep_held()
    assert partial.load()["epoch"] == 2
    assert partial.load()["nested"][0]["weights"].tolist() == [3.0, 3.0, 3.0]
    partial.keep(lambda: {"epoch": 3}, last=True)
    partial.keep_held()
    assert partial.load() == {"epoch": 3}
