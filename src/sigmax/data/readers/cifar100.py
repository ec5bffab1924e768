"""CIFAR-100 as published: the Python version, unpacked, with its 100 fine labels.

The files `train` and `test` are pickled dicts with the pixel planes of CIFAR-10 under b"data" and a list of labels
under b"fine_labels".
"""

from sigmax.data.dataset import Dataset
from sigmax.data.readers.cifar10 import SHAPE, read_python
from sigmax.data.registry import DataRequest, register
from sigmax.errors import RequestError

_HOME = "cifar-100-python"
_CLASSES = tuple(
    "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle "
    "caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant "
    "flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man "
    "maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree "
    "plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper "
    "snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor train "
    "trout tulip turtle wardrobe whale willow_tree wolf woman worm".split()
)


@register("cifar100", path=True, splits=("train", "test"))
def read(request: DataRequest) -> Dataset:
    """50,000 images to train on or 10,000 to test on, (3, 32, 32), in the published order, with fine labels.

    The path is the folder of the files, or the one in which `cifar-100-python` lies. Pickles are read without running
    them.
    """
    expected = f"a folder with the file {request.split} of CIFAR-100 (Python version), unpacked"
    root = request.location(expected)
    path = next((home / request.split for home in (root, root / _HOME) if (home / request.split).is_file()), None)
    if path is None:
        raise RequestError(f"{root} lacks {request.split}; expected {expected}")
    pixels, labels = read_python(path, key=b"fine_labels", of="CIFAR-100")
    return Dataset(request.kind, request.split, pixels.reshape(-1, *SHAPE), labels, _CLASSES)
