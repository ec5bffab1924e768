"""Whose a pipeline's folder is: what it was begun for is written down first, and anything else is refused.

Every file in the folder says what it was made for and refuses another request by itself, but only when its turn
comes, which may be hours later. The claim says it at once.
"""

import json
from typing import Any

from sigmax.errors import RequestError
from sigmax.files import written_whole
from sigmax.train.partial import plan_of, refuse_other_plan
from sigmax.train.pipeline_config import PipelineConfig
from sigmax.train.pipeline_tables import GAUSSIAN, ExpertsConfig, FinetuneConfig, RouterConfig, VotingConfig

NAME = "pipeline.json"
NOT_CERTIFIED = ("rules", "experts", "start", "skip", "max")  # which systems and inputs, not what is proved of them
Claim = dict[str, Any]


def refuse_other(config: PipelineConfig) -> None:
    """Raise where the folder was begun for another pipeline, saying what differs.

    What decides no file's content may change: devices and batches, which inputs are certified and by which rules.
    Steps may be added at the end, or left out there. Data and given systems may move: files know them by their
    content.
    """
    there, asked = _read(config), _claim(config)
    if there is None:
        return
    there.get("data", {}).pop("test", None)  # told by earlier versions
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
    data = {name: value for name, value in plan_of(config.data).items() if name not in ("source", "test")}
    certified = {name: value for name, value in _votes(config.certify).items() if name not in NOT_CERTIFIED}
    told = {
        "steps": config.steps,
        "data": data,
        "experts": _experts(config.experts),
        "labels": _votes(config.labels),
        "router": _router(config.router),
        **({"inner": [_router(router) for router in config.inner]} if config.inner else {}),
        **({"balance": plan_of(config.balance)} if config.balance is not None else {}),
        **({"store": config.store} if config.store != "fp32" else {}),
        "finetune": _finetune(config.finetune),
        "certify": certified,
    }
    plain: Claim = json.loads(json.dumps(told))
    return plain


def _experts(experts: ExpertsConfig) -> Claim:
    if experts.systems:
        return {"systems": len(experts.systems)}
    told = {name: getattr(experts, name) for name in ("sigmas", "one_network", "model", "normalise")}
    usual = {"method": (GAUSSIAN,), "hyper": ({},), "bound": "one-sided"}
    changed = {name: getattr(experts, name) for name, value in usual.items() if getattr(experts, name) != value}
    return {**told, **changed, "options": dict(experts.options), "training": experts.training.plan()}


def _finetune(how: FinetuneConfig) -> Claim:
    more = {"consistency": how.consistency} if how.consistency else {}  # told since there is the choice
    return {"votes": how.votes, **more, "training": how.training.plan()}


def _votes(voting: VotingConfig) -> Claim:
    return {name: value for name, value in plan_of(voting).items() if name not in ("device", "batch")}


def _router(router: RouterConfig) -> Claim:
    told = {**vars(router), "options": dict(router.options), "training": router.training.plan()}
    for name in ("start", "sure_of"):
        if told[name] is None:  # as it was told before there was a choice
            del told[name]
    if not told["names"]:
        del told["names"]
    return told


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
