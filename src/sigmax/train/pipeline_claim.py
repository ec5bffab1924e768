"""Whose a pipeline's folder is: what it was begun for is written down first, and anything else is refused.

Every file in the folder says what it was made for and refuses another request by itself, but only when its turn
comes, which may be hours later. The claim says it at once.
"""

import json
from typing import Any

from sigmax.errors import RequestError
from sigmax.files import written_whole
from sigmax.train.partial import refuse_other_plan
from sigmax.train.pipeline_config import PipelineConfig

NAME = "pipeline.json"
Claim = dict[str, Any]


def refuse_other(config: PipelineConfig) -> None:
    """Raise where the folder was begun for another pipeline, saying what differs.

    What decides no file's content may change: the device, which inputs are certified and by which rules. Steps may
    be added at the end, or left out there. Data and given systems may move: files know them by their content.
    """
    there, asked = _read(config), _claim(config)
    if there is None:
        return
    common = min(len(there["steps"]), len(asked["steps"]))
    for claim in (there, asked):
        claim["steps"] = claim["steps"][:common]
    if "finetune" not in there["steps"]:
        del there["finetune"], asked["finetune"]
    what = f"{config.out} holds another pipeline"
    if {**there, "certify": None} == {**asked, "certify": None}:
        refuse_other_plan(there, asked, what, _certify_again(config))
    refuse_other_plan(there, asked, what)


def _certify_again(config: PipelineConfig) -> str:
    """What to do short of deleting: the systems are the same, and certifying them is a verb of its own."""
    how = config.certify
    return (
        f"Only certifying differs: certify a system of {config.out / 'systems'} again with sigmax certify SYSTEM "
        f"--data {config.data.source} --n0 {how.n0} --n {how.n} --alpha {how.alpha:g} --seed {how.seed} --out RUN, "
        "or choose another out"
    )


def claim(config: PipelineConfig) -> None:
    """Make the folder this pipeline's, unless it is another's."""
    refuse_other(config)
    there, asked = _read(config), _claim(config)
    if there is None or len(asked["steps"]) > len(there["steps"]):
        with written_whole(config.out / NAME) as draft:
            draft.write_text(json.dumps(asked, indent=1) + "\n")


def _claim(config: PipelineConfig) -> Claim:
    """All that decides what the files hold, as it will be read back."""
    experts, router, certify = config.experts, config.router, config.certify
    told = {
        "steps": config.steps,
        "data": {"image_size": config.data.image_size, "train": config.data.train, "test": config.data.test},
        "experts": {"systems": len(experts.systems)}
        if experts.systems
        else {
            "sigmas": experts.sigmas,
            "one_network": experts.one_network,
            "model": experts.model,
            "options": dict(experts.options),
            "normalise": experts.normalise,
            "training": experts.training.plan(),
        },
        "labels": vars(config.labels),
        "router": {**vars(router), "options": dict(router.options), "training": router.training.plan()},
        "finetune": {"votes": config.finetune.votes, "training": config.finetune.training.plan()},
        "certify": {name: getattr(certify, name) for name in ("n0", "n", "alpha", "seed")},
    }
    plain: Claim = json.loads(json.dumps(told))
    return plain


def _read(config: PipelineConfig) -> Claim | None:
    path = config.out / NAME
    try:
        text = path.read_text()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise RequestError(f"{path} cannot be read ({error.strerror}); choose another folder as out") from error
    try:
        told: Claim = json.loads(text)
        whole = isinstance(told["steps"], list) and isinstance(told["finetune"], dict)
    except (ValueError, LookupError, TypeError):
        whole = False
    if not whole:
        raise RequestError(f"{path} is damaged; delete it: all other files say what they are for")
    return told
