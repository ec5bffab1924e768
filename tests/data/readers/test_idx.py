"""idx files beyond the table: torchvision's folders, names of the classes, and each kind of damage by its words."""

import pytest

from sigmax.data import load
from sigmax.errors import RequestError
from tests.data.table import ROWS, idx, sample, write_idx

IMAGES, LABELS = sample(ROWS["mnist"])


def test_names_of_the_classes(tmp_path):
    write_idx("mnist")(tmp_path, "test", IMAGES, LABELS)
    assert load(f"mnist:{tmp_path}").classes[9] == "9"
    assert load(f"fashion:{tmp_path}").classes[9] == "Ankle boot"


def test_two_sets_under_one_root_are_not_confused(tmp_path):
    for folder, count in (("MNIST/raw", 4), ("FashionMNIST/raw", 5)):
        (tmp_path / folder).mkdir(parents=True)
        write_idx("mnist")(tmp_path / folder, "test", IMAGES[:count], LABELS[:count])
    assert (len(load(f"mnist:{tmp_path}")), len(load(f"fashion:{tmp_path}"))) == (4, 5)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (idx(LABELS), ["00000803", "00000801", "exchanged"]),
        (idx(IMAGES[:, 0]) + b"\0", ["goes on after"]),
        (idx(IMAGES[:, 0])[:-1], ["truncated: expected"]),
        (b"\0\0\x08\3" + b"\xff" * 12, ["truncated"]),
        (b"<html>not found</html>", ["not an idx file", "3c68746d"]),
        (b"", ["got nothing"]),
        (None, ["holds no t10k-images-idx3-ubyte; expected", "plain or .gz"]),
    ],
)
def test_what_is_not_idx_is_refused(content, words, tmp_path):
    source = write_idx("mnist")(tmp_path, "test", IMAGES, LABELS)
    file = tmp_path / "t10k-images-idx3-ubyte"
    file.unlink() if content is None else file.write_bytes(content)
    with pytest.raises(RequestError) as refusal:
        load(source)
    for word in ["t10k-images-idx3-ubyte", *words]:
        assert word in str(refusal.value)


def test_what_is_not_gzip_is_refused(tmp_path):
    source = write_idx("mnist", ending=".gz")(tmp_path, "test", IMAGES, LABELS)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").write_bytes(idx(LABELS))
    with pytest.raises(RequestError, match="cannot be unzipped"):
        load(source)


def test_images_and_labels_must_agree(tmp_path):
    with pytest.raises(RequestError, match="10 images but 3 labels"):
        load(write_idx("mnist")(tmp_path, "test", IMAGES, LABELS[:3]))
