"""Decoding image files: exact pixels, one shape, and names of the files that fail."""

import numpy as np
import pytest
from PIL import Image, ImageOps

from sigmax.data.dataset import LazyImages
from sigmax.data.pictures import survey, survey_to_fit
from sigmax.errors import RequestError


def noise(height, width, channels=3, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), np.uint8)


def save(file, values, **options):
    Image.fromarray(values.squeeze()).save(file, **options)
    return file


def read(source, *indices):
    return source.read(np.array(indices))


@pytest.mark.parametrize("ending", ["png", "bmp", "webp"])
def test_lossless_files_give_their_exact_pixels(ending, tmp_path):
    pictures = [noise(5, 7, seed=i) for i in range(3)]
    options = {"lossless": True} if ending == "webp" else {}
    files = [save(tmp_path / f"{i}.{ending}", values, **options) for i, values in enumerate(pictures)]
    source = survey(files, None)
    assert isinstance(source, LazyImages)
    assert (len(source), source.shape) == (3, (3, 5, 7))
    np.testing.assert_array_equal(read(source, 2, 0), np.stack([pictures[2], pictures[0]]).transpose(0, 3, 1, 2))


@pytest.mark.parametrize("size", [None, 4])
def test_grey_only_if_all_are_grey(size, tmp_path):
    grey = [save(tmp_path / f"{i}.png", noise(6, 6, 1, seed=i)) for i in range(2)]
    colour = save(tmp_path / "colour.png", noise(6, 6))
    assert survey(grey, size).shape[0] == 1
    mixed = survey([*grey, colour], size)
    assert mixed.shape[0] == 3
    red, green, blue = read(mixed, 0)[0]
    np.testing.assert_array_equal(red, green)
    np.testing.assert_array_equal(red, blue)


def test_palettes_and_transparency_become_colour(tmp_path):
    solid = Image.new("RGB", (3, 3), (10, 20, 30))
    files = [tmp_path / "palette.png", tmp_path / "alpha.png"]
    solid.convert("P", palette=Image.Palette.ADAPTIVE).save(files[0])
    Image.new("RGBA", (3, 3), (10, 20, 30, 128)).save(files[1])
    for image in read(survey(files, None), 0, 1):
        assert image[:, 1, 1].tolist() == [10, 20, 30]


def test_different_sizes_need_a_size(tmp_path):
    files = [save(tmp_path / f"{i}.png", noise(5, 5 + i // 2)) for i in range(4)]
    with pytest.raises(RequestError) as refusal:
        survey(files, None)
    for word in [f"{files[0]} is 5x5", f"{files[2]} is 6x5", "--image-size", "--set image_size=N", "size=N"]:
        assert word in str(refusal.value)
    assert read(survey(files, 3), 0, 3).shape == (2, 3, 3, 3)


def test_crops_the_centre_after_resizing_the_shorter_side(tmp_path):
    photo = noise(375, 500)
    source = survey([save(tmp_path / "photo.png", photo)], 224)
    resized = Image.fromarray(photo).resize((341, 256), Image.Resampling.BICUBIC)
    expected = np.asarray(resized.crop((58, 16, 58 + 224, 16 + 224)))
    np.testing.assert_array_equal(read(source, 0)[0], expected.transpose(2, 0, 1))


def test_an_image_of_the_right_size_is_only_cropped(tmp_path):
    tall = noise(16, 8)
    source = survey([save(tmp_path / "tall.png", tall)], 7)
    np.testing.assert_array_equal(read(source, 0)[0], tall[4:11, 0:7].transpose(2, 0, 1))


def strangers(folder):
    """Pictures as people have them: odd sizes, greyscale, CMYK, a palette, transparency, taken upright."""
    folder.mkdir()
    turned = Image.Exif()
    turned[0x0112] = 6
    save(folder / "a.jpg", noise(30, 50), exif=turned)
    save(folder / "b.png", noise(9, 7, 1))
    Image.fromarray(noise(40, 20)).convert("CMYK").save(folder / "c.jpg")
    Image.fromarray(noise(20, 20)).quantize(8).save(folder / "d.png")
    save(folder / "e.png", noise(16, 17, 4))
    save(folder / "f.webp", noise(16, 16))
    return sorted(folder.iterdir())


def test_pictures_of_any_kind_are_made_to_fit_a_network(tmp_path):
    files = strangers(tmp_path / "photos")
    images = survey_to_fit(files, (3, 16, 16))
    assert images.shape == (3, 16, 16)
    resized = survey(files, 16)
    np.testing.assert_array_equal(read(images, *range(6)), read(resized, *range(6)))


def test_pictures_that_fit_keep_every_pixel(tmp_path):
    values = [noise(16, 16), noise(16, 16, 1)]
    files = [save(tmp_path / f"{i}.png", image) for i, image in enumerate(values)]
    found = read(survey_to_fit(files, (3, 16, 16)), 0, 1)
    np.testing.assert_array_equal(found[0], values[0].transpose(2, 0, 1))
    np.testing.assert_array_equal(found[1], values[1].transpose(2, 0, 1).repeat(3, axis=0))
    assert survey_to_fit(files[1:], (1, 16, 16)).shape == (1, 16, 16)
    assert survey_to_fit(files, (1, 16, 16)).shape == (3, 16, 16), "colour is not left out"


def test_pictures_cannot_fit_what_is_not_square(tmp_path):
    with pytest.raises(RequestError, match="--image-size"):
        survey_to_fit(strangers(tmp_path / "photos"), (3, 16, 20))


def test_resizing_antialiases(tmp_path):
    board = np.indices((512, 512)).sum(axis=0) % 2 * 255
    source = survey([save(tmp_path / "board.png", board.astype(np.uint8)[..., None])], 28)
    assert np.abs(read(source, 0).astype(int) - 127).max() <= 8


def test_damage_is_told_with_the_file_and_only_when_read(tmp_path):
    files = [save(tmp_path / f"{i}.jpg", noise(64, 64, seed=i)) for i in range(2)]
    files[1].write_bytes(files[1].read_bytes()[:-800])
    for size in (None, 16):
        source = survey(files, size)
        assert read(source, 0).shape[0] == 1
        with pytest.raises(RequestError, match=r"1\.jpg cannot be read as an image .*; repair it or remove it"):
            read(source, 0, 1)


@pytest.mark.parametrize("content", [b"", b"junk", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"])
def test_a_damaged_header_is_told_at_once(content, tmp_path):
    file = tmp_path / "broken.png"
    file.write_bytes(content)
    with pytest.raises(RequestError, match=r"broken\.png cannot be read as an image"):
        survey([file], None)


def test_more_than_8_bits_are_refused_rather_than_clipped(tmp_path):
    deep = save(tmp_path / "deep.png", np.full((4, 4), 40_000, np.uint16))
    with pytest.raises(RequestError, match=r"deep\.png has more than 8 bits"):
        survey([deep], None)
    late = survey([save(tmp_path / "plain.png", noise(4, 4)), deep], 4)
    with pytest.raises(RequestError, match=r"deep\.png has more than 8 bits"):
        read(late, 1)


@pytest.mark.parametrize("size", [None, 16])
def test_every_bad_file_is_named_before_a_run_begins(size, tmp_path):
    """What is hashed for the fingerprint is decoded too, and one bad file does not hide the others."""
    files = [save(tmp_path / f"{i}.jpg", noise(64, 64, seed=i)) for i in range(9)]
    good = survey(files, size)
    assert len(list(good.content())) == 10
    for file in files[1:3]:
        file.write_bytes(file.read_bytes()[:-800])
    with pytest.raises(RequestError, match=r"(?s)2 of 9 images cannot be used:.*1\.jpg cannot .*2\.jpg cannot"):
        list(good.content())
    files[3].write_bytes(b"junk")
    save(files[4].with_suffix(".png"), np.full((64, 64), 40_000, np.uint16)).rename(files[4])
    with pytest.raises(RequestError, match=r"(?s)4 of 9.*3\.jpg cannot .*4\.jpg has more than 8 bits"):
        list(survey(files, size).content())
    for file in files[5:7]:
        file.write_bytes(b"")
    with pytest.raises(RequestError, match=r"(?s)6 of 9.*and 1 more"):
        list(survey(files, size).content())


@pytest.mark.parametrize("ending", ["jpg", "png", "webp"])
def test_photographs_are_turned_as_their_camera_says(ending, tmp_path):
    for orientation in range(1, 9):
        exif, file = Image.Exif(), tmp_path / f"{orientation}.{ending}"
        exif[0x0112] = orientation
        save(file, noise(8, 24), exif=exif)
        with Image.open(file) as image:
            expected = np.asarray(ImageOps.exif_transpose(image)).transpose(2, 0, 1)
        np.testing.assert_array_equal(read(survey([file], None), 0)[0], expected)


def test_content_follows_bytes_order_and_size_but_not_names(tmp_path):
    one, two = (save(tmp_path / f"{i}.png", noise(4, 4, seed=i)) for i in range(2))
    copy = tmp_path / "renamed.png"
    copy.write_bytes(one.read_bytes())
    same = {tuple(survey(files, None).content()) for files in ([one, two], [copy, two])}
    assert len(same) == 1
    others = [survey([two, one], None), survey([one], None), survey([one, two], 4), survey([one, two], 3)]
    assert len(same | {tuple(source.content()) for source in others}) == 5


def test_take_keeps_shape_and_order(tmp_path):
    files = [save(tmp_path / f"{i}.png", noise(4, 4, seed=i)) for i in range(3)]
    source = survey(files, None)
    part = source.take(np.array([2, 0]))
    np.testing.assert_array_equal(read(part, 0, 1), read(source, 2, 0))
