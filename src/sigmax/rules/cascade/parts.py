"""What the parts of a cascade are called, and how one record went through its levels."""

import math
from collections.abc import Mapping
from typing import Any

from sigmax.rules.certificate import Certificate, Outcome, Role, leading
from sigmax.rules.registry import LevelsTried

LAST = "last"


def level_name(j: int) -> str:
    """How a level is called in stages, networks and the ledger."""
    return f"level-{j}"


def levels_tried(plain: Mapping[str, Any], certificate: Certificate) -> LevelsTried:
    """Which level ended the record, how far the others exclude, and the class without a certificate."""
    votes = {stage.part: stage for stage in certificate.stages if stage.role is Role.ESTIMATION}
    thresholds = {level_name(j): threshold for j, threshold in enumerate(plain["thresholds"])}
    asked = [votes[part] for part in thresholds if part in votes]
    # Levels below the one that answered may have been asked how far its class holds where it would defer.
    answered = certificate.answered_by
    ended = list(thresholds).index(answered) if answered in thresholds else len(thresholds)
    excluded = min((0.0 if s.lower is not None else s.radius or 0.0 for s in asked[:ended]), default=math.inf)
    shares = {s.part: max(s.counts[: plain["classes"]]) / s.n for s in asked}
    first = next((part for part, share in shares.items() if share > thresholds[part]), LAST)
    voted = votes.get(first)  # a last of several parts has no votes of its own
    uncertified = leading(voted.counts[: plain["classes"]])[0] if voted else certificate.predicted
    return LevelsTried(ended, certificate.outcome is Outcome.LEVEL_UNDECIDED, excluded, uncertified)
