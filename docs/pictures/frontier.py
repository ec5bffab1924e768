"""docs/pictures/frontier.png: what other thresholds would make of the networks of zoo:digits-cascade.

It asks the networks for the images that their recipe held out of all training; half a minute on one core.
"""

from pathlib import Path

import sigmax as sx
from sigmax import report
from sigmax.pipeline import PipelineConfig
from sigmax.pipeline.data import PipelineData
from sigmax.report.plots.style import new_figure, picture, whole_figure
from sigmax.train.calibrate import CalibrateOptions, chosen, estimated, frontier

RECIPE = Path(__file__).parents[2] / "recipes" / "digits_cascade.toml"
RADII = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
NAMES = {"mean": "o", "least-ratio": "D"}  # objectives, and their marks


def main() -> None:
    """Ask, search and draw, and print what each objective chooses."""
    system = sx.load("zoo:digits-cascade")
    assert isinstance(system, sx.Cascade)
    held_out = PipelineData(PipelineConfig.read(RECIPE)).held_out
    estimate = estimated(system, held_out, samples=512, n=10_000, alpha=1e-3)
    found = frontier(estimate, RADII)
    ax = report.draw_frontier(found.plain(), new_figure(6.0, 4.0).add_subplot())
    ends = [RADII.index(radius) for radius in found.between]
    for (objective, mark), colour in zip(NAMES.items(), ("#D55E00", "#009E73"), strict=True):
        best = chosen(estimate, CalibrateOptions(objective=objective, radii=RADII))
        ax.plot(*([best.accuracy[end]] for end in ends), mark, color=colour, ms=10, mfc="none", label=objective)
        accuracy = " ".join(f"{share:.1f}" for share in best.accuracy)
        ratio = " ".join("-" if share is None else f"{share:.3f}" for share in best.ratio)
        print(f"{objective}: confidence {', '.join(f'{c:.3f}' for c in best.confidence)}; {accuracy}; ratio {ratio}")
    ax.legend(frameon=False, fontsize="small")
    Path(__file__).with_suffix(".png").write_bytes(picture(whole_figure(ax), "png", dots=110))
    print(f"{len(held_out)} images held out; {len(found.points)} calibrations between radii {found.between}")


if __name__ == "__main__":
    main()
