"""What `--set KEY=VALUE` of the training verbs changes; their own options are changes like any other."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from sigmax.config.tables import markdown
from sigmax.config.validation import Count, Options, Positive, Share, Weight, about
from sigmax.pipeline.tables import FinetuneConfig, LabelOptions
from sigmax.train.calibrate import CalibrateOptions
from sigmax.train.loop.settings import Settings

Loop = Annotated[Settings, about("the training loop")]
Hyper = Annotated[dict[str, Any], about("hyper-parameters of the method")]
NetworkOptions = Annotated[dict[str, Any], about("options of the architecture, such as options.width=16")]
Normalise = Annotated[str, about("none, cifar10, imagenet or half (0.5 and 0.5): mean and std, kept in the model")]
ImageSize = Annotated[Count | None, about("for image folders: resize and crop to this many pixels a side")]


class FieldKeys(Options):
    """A nearest-neighbour field, whose base is the training's sigma."""

    rate: Annotated[Positive, about("how fast log sigma changes with the distance to the training images")] = 0.01
    k: Annotated[Count, about("nearest training images whose distance counts")] = 20
    offset: Annotated[float, about("usual mean distance to them")] = 5.0


class MethodKeys(Options):
    """Of `diagnose gradients`."""

    method: Hyper = Field(default_factory=dict)


class ClassifierKeys(Options):
    """Of `train classifier`."""

    training: Loop = Settings()
    method: Hyper = Field(default_factory=dict)
    data_dependent: Annotated[dict[str, Any] | None, about("a moving noise level of each image: DataDependent")] = None
    field: Annotated[FieldKeys | None, about("noise by the distance to other images, as `build semi-elastic`")] = None
    options: NetworkOptions = Field(default_factory=dict)
    normalise: Normalise = "none"
    validation: Annotated[Share, about("share of the images to check on during training, not train on")] = 0.0
    validate_every: Annotated[Count, about("epochs between two such checks")] = 10
    tune_denoiser: Annotated[bool, about("train a copy of the denoiser too: NAME.denoiser.safetensors")] = False
    image_size: ImageSize = None


class RouterKeys(Options):
    """Of `train router`."""

    training: Loop = Settings()
    loss: Annotated[dict[str, Any], about("the objective (paper, certified, weighted) and its options")] = Field(
        default_factory=dict
    )
    options: NetworkOptions = Field(default_factory=dict)
    normalise: Normalise = "none"
    held_out: Annotated[Share, about("share of the labelled inputs to check on, not train on")] = 0.1
    image_size: ImageSize = None


class DenoiserKeys(Options):
    """Of `train denoiser`."""

    training: Loop = Settings()
    options: Annotated[
        dict[str, Any], about("of the U-Net: width, multipliers=[1,2,2], blocks, attention=[16,8], dropout")
    ] = Field(default_factory=dict)
    classifier_weight: Annotated[Weight, about("weight of the classifier's loss beside the squared error")] = 0.01
    validation: Annotated[Share, about("share of the images to check on, not train on")] = 0.0
    image_size: ImageSize = None


class FinetuneKeys(FinetuneConfig):
    """Of `finetune`."""

    image_size: ImageSize = None


class LabelKeys(LabelOptions):
    """Of `label`."""

    image_size: ImageSize = None


class CalibrateKeys(CalibrateOptions):
    """Of `calibrate`."""

    image_size: ImageSize = None


def given(**own: object) -> list[str]:
    """A verb's own options as changes; `training__lr` is training.lr. Those left out change nothing."""
    return [f"{name.replace('__', '.')}={value}" for name, value in own.items() if value is not None]


def classifier_tables() -> Mapping[str, str]:
    """The keys of `train classifier`, and those of every method."""
    from sigmax.train.methods.data_dependent import DataDependent

    moving = markdown(DataDependent, without=("sigma", "inner"))
    return {"Keys of --set": markdown(ClassifierKeys), **method_tables(), "`data_dependent.`": moving}


def method_tables() -> Mapping[str, str]:
    """The hyper-parameters of every method; its noise is the verb's."""
    from sigmax.train.methods.registry import known

    return {
        f"`method.` of {name}: {entry.summary}": markdown(entry.kind, without=("sigma", "noise"))
        for name, entry in known().items()
    }


def router_tables() -> Mapping[str, str]:
    """The keys of `train router`, and those of every objective."""
    from sigmax.train.router.options import DECIDED, OBJECTIVES, OPTIONAL

    return {
        "Keys of --set": markdown(RouterKeys),
        **{
            f"`loss.` with loss.objective={name}": markdown(kind, without=DECIDED, optional=OPTIONAL)
            for name, kind in OBJECTIVES.items()
        },
    }
