"""What every reader must do, for each row of the table."""

import numpy as np
import pytest

from sigmax.data import Dataset, load
from sigmax.errors import RequestError
from tests.data.table import ROWS, files_below, sample

rows = pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())


@rows
def test_what_is_written_is_read_in_order(row, tmp_path):
    for seed, split in enumerate(("train", "test")):
        images, labels = sample(row, seed=seed)
        data = load(row.write(tmp_path, split, images, labels), split)
        assert (data.split, data.shape, len(data.classes)) == (split, row.shape, row.classes)
        assert data.labels.tolist() == labels.tolist()
        pixels = data.pixels(range(len(data)))
        assert pixels.dtype == np.float32
        np.testing.assert_array_equal(pixels, (images / 255.0).astype(np.float32))


@rows
def test_fingerprints_tell_splits_and_pixels_apart(row, tmp_path):
    images, labels = sample(row)
    source = row.write(tmp_path, "test", images, labels)
    whole = load(source).fingerprint
    assert load(source).fingerprint == whole
    if row.by_pixels:
        assert Dataset("any", "name", images, labels, tuple("abcdefghij")).fingerprint == whole
    row.write(tmp_path, "train", images[::-1].copy(), labels)
    assert load(source, "train").fingerprint != whole
    images[3, 0, 1, 2] ^= 1
    row.write(tmp_path, "test", images, labels)
    assert load(source).fingerprint != whole


@rows
def test_a_path_that_is_missing_or_impossible_is_named_with_what_should_be_there(row, tmp_path):
    kind = row.write(tmp_path, "test", *sample(row)).partition(":")[0]
    with pytest.raises(RequestError) as refusal:
        load(f"{kind}:{tmp_path}/nowhere")
    assert f"{tmp_path}/nowhere does not exist" in str(refusal.value)
    assert row.expects in str(refusal.value)
    with pytest.raises(RequestError, match=f"write {kind}:PATH"):
        load(kind)
    for impossible in ("~nosuchuser/x", "x" * 300, "a\0b"):
        with pytest.raises(RequestError, match="; expected "):
            load(f"{kind}:{impossible}")


@rows
def test_unknown_splits_and_sizes_are_refused(row, tmp_path):
    source = row.write(tmp_path, "test", *sample(row))
    with pytest.raises(RequestError, match="train and test, got 'val'" if row.splits else "split 'val'"):
        load(source, "val")
    if row.sizes:
        assert load(source, size=3).shape[1:] == (3, 3)
    else:
        with pytest.raises(RequestError, match="only for the source folder"):
            load(source, size=3)


@rows
def test_every_file_cut_short_is_refused_by_name(row, tmp_path):
    source = row.write(tmp_path, "test", *sample(row))
    for file in files_below(tmp_path):
        whole = file.read_bytes()
        for share in (0.0, 0.13, 0.57, 0.77):
            file.write_bytes(whole[: int(share * len(whole))])
            with pytest.raises(RequestError, match=file.name):
                load(source).pixels(range(10))
        file.write_bytes(whole)
    load(source)


@rows
def test_a_label_without_its_class_is_refused(row, tmp_path):
    if not row.splits:
        pytest.skip("the classes are those that are there")
    images, labels = sample(row)
    labels[9] = row.classes
    with pytest.raises(RequestError, match=f"label 9 is {row.classes}"):
        load(row.write(tmp_path, "test", images, labels))
