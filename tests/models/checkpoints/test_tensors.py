import pytest
import torch

from sigmax.models.checkpoints.tensors import digest

BASE = {"a": torch.zeros(2, 3), "b": torch.ones(2)}


@pytest.mark.parametrize(
    "other",
    [
        {"a": torch.zeros(3, 2), "b": torch.ones(2)},
        {"a": torch.zeros(2, 3, dtype=torch.int32), "b": torch.ones(2)},
        {"c": torch.zeros(2, 3), "b": torch.ones(2)},
        {"a": torch.zeros(2, 3), "b": torch.tensor([1.0, 1.0000001])},
        {"a": torch.zeros(2, 3)},
    ],
    ids=["shape", "dtype", "name", "value", "missing"],
)
def test_the_digest_sees(other):
    assert digest("", other) != digest("", BASE)


def test_the_digest_does_not_see_order_or_strides():
    turned = torch.zeros(3, 2).t()
    assert not turned.is_contiguous()
    assert digest("", {"b": torch.ones(2), "a": turned}) == digest("", BASE)
    assert digest("other", BASE) != digest("", BASE)


def test_scalars_and_empty_tensors_have_digests():
    assert digest("", {"count": torch.tensor(3)}) != digest("", {"count": torch.tensor(4)})
    assert len(digest("", {"nothing": torch.zeros(0, 4)})) == 32
