"""Rules in words: what a plan's description of a scheme says to a reader."""

from collections.abc import Mapping
from typing import Any

VOUCHED = "vouched for"  # by a user, and proved by nobody


def scheme_text(rule: Mapping[str, Any]) -> str:
    """The scheme and what it was told: 'dual, rule consensus, router sigma 1, experts 0.25 / 0.5 / 1'."""
    if rule["scheme"] == "dual":
        router = f"router sigma {rule['router']['sigma']:g}{_bound(rule['router'])}"
        below = f"names or passes to {expert_names(rule)}" if names(rule) else f"experts {expert_names(rule)}"
        return ", ".join(["dual", f"rule {rule['rule']}", router, below])
    if rule["scheme"] == "multiscale":
        return _cascade(rule)
    if rule["scheme"] == "semi-elastic":
        word = "proved" if rule["field"]["proved"] else VOUCHED
        base = f", base {rule['field']['base']:g}" if "base" in rule["field"] else ""
        rate = f"rate {rule['field']['rate']:g} {word}"
        return f"semi-elastic, field {rule['field']['field']}{base}, {rate}, dim {rule['dim']}"
    if rule["scheme"] == "memorized":
        return (
            f"memorized, sigma {rule['least']:g} to {rule['most']:g} by {rule['search']}, valid within its memory"
        )
    return ", ".join([str(rule["scheme"]), *_settings(rule)])


def _cascade(rule: Mapping[str, Any]) -> str:
    """'multiscale, sigmas 1 / 0.5 / 0.25, thresholds 0.5', and whether it is no certificate."""
    marks = list(reversed(rule["thresholds"]))
    shown = marks[:1] if len(set(marks)) == 1 else marks
    words = [
        "multiscale",
        f"sigmas {' / '.join(f'{s:g}' for s in reversed(rule['sigmas']))}",
        f"threshold{'s' if len(shown) > 1 else ''} {' / '.join(f'{t:g}' for t in shown)}",
    ]
    return ", ".join(words if is_sound(rule) else [*words, "released budget (not sound)"])


def is_sound(rule: Mapping[str, Any]) -> bool:
    """Whether the radii of a run with this rule are certificates, as far as its rule goes."""
    return rule.get("budget", "sound") == "sound" and all(map(is_sound, rule.get("experts", ())))


def soundness(rule: Mapping[str, Any]) -> str:
    """What makes the radii of a rule certificates, in a few words for a table."""
    if not is_sound(rule):
        return "not sound"
    if rule["scheme"] == "dual":  # no stronger than the word that an expert rests on
        below = dict.fromkeys(map(soundness, rule["experts"]))
        return "; ".join(["certified router", *(words for words in below if VOUCHED in words)])
    if rule["scheme"] == "semi-elastic":
        return "semi-elastic, rate proved" if rule["field"]["proved"] else f"semi-elastic, rate {VOUCHED}"
    words = {
        "smoothed": "constant noise",
        "multiscale": "certified cascade",
        "memorized": "within memory",
        "lipschitz": f"Lipschitz constant, {VOUCHED}",
        "imported": "claimed, not proved",
    }
    return words.get(str(rule["scheme"]), str(rule["scheme"]))


def in_words(rule: Mapping[str, Any]) -> str:
    """The same with the noise of a smoothed classifier, where no other line tells it: 'smoothed, sigma 0.5'."""
    return f"{rule['scheme']}, sigma {expert_name(rule)}" if "sigma" in rule else scheme_text(rule)


def names(rule: Mapping[str, Any]) -> bool:
    """Whether it is a dual rule whose router names classes itself, and passes what it does not name."""
    return rule["scheme"] == "dual" and len(rule.get("experts", ())) == 1


def expert_names(rule: Mapping[str, Any]) -> str:
    """The experts of a dual rule, in the order of the routes: '0.25 / 0.5 / 1'."""
    return " / ".join(expert_name(expert) for expert in rule["experts"])


def expert_name(rule: Mapping[str, Any]) -> str:
    """An expert in a word: its noise if it has one, else what it is."""
    if rule["scheme"] == "dual":
        own = f"{rule['router']['sigma']:g} / " if names(rule) else ""
        return f"({rule['rule']} of {own}{expert_names(rule)})"
    if "sigma" in rule:
        return f"{rule['sigma']:g}{_bound(rule)}"
    return str(rule["scheme"])


def one_sided(rule: Mapping[str, Any]) -> bool:
    """Whether the class's own share alone decides, so that it takes more than half of the votes."""
    if rule["scheme"] == "dual":
        return all(one_sided(expert) for expert in rule["experts"])
    return str(rule.get("bound", "one-sided")) == "one-sided"


def _bound(rule: Mapping[str, Any]) -> str:
    return f" {rule['bound']}" if rule.get("bound", "one-sided") != "one-sided" else ""


def _settings(rule: Mapping[str, Any]) -> list[str]:
    """What the scheme was told besides its name and where a log came from; sigma has a line of its own."""
    known = ("scheme", "sigma", "sigmas", "file", "radii")
    return [f"{key} {value}" for key, value in rule.items() if key not in known]
