"""Draw the pictures of the vignettes from the stored results.

python -m tests.studies.figures [--folder vignettes]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
from cycler import cycler
from matplotlib import pyplot as plt

from privatelr.plot_style import COLOURS as PALETTE

from . import high_dimension, lp_svm, suggested_bounds
from .stored import stored

if TYPE_CHECKING:
    from matplotlib.axes import Axes

mpl.rcParams["axes.prop_cycle"] = cycler(color=PALETTE)  # as all plots of the package

VIGNETTES = Path(__file__).resolve().parents[2] / "vignettes"
MARKS = ("o", "s", "^", "D", "v", "P")
COLOURS = {
    "corrected, density 0.1": "C0",
    "corrected, density 0.25": "C0",
    "corrected, density 0.4": "C4",
    "objective perturbation, pure": "C2",
    "objective perturbation, delta 1e-6": "C3",
    "as printed, margins": "C1",
    "as printed, counts": "C5",
}
"""The same in both panels."""


def lines(axes: Axes, series: dict[str, dict[float, float]]) -> None:
    """One line with its own mark for each series; minimisers are dashed, over their releases."""
    for mark, (name, points) in zip(MARKS, series.items(), strict=False):
        hidden = name.startswith("minimiser")
        look = {"linestyle": "--", "fillstyle": "none", "markersize": 8} if hidden else {}
        if name in COLOURS:
            look["color"] = COLOURS[name]
        axes.plot(
            list(points),
            list(points.values()),
            **{"marker": mark, "markersize": 4, "label": name} | look,
        )
    axes.set_xscale("log")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=7)


def draw_lp_svm(found: dict[str, Any], path: Path) -> None:
    """Test errors by epsilon, as printed and corrected, for both tables."""
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for axes, data in zip(panels, lp_svm.LAMBDAS, strict=True):
        lines(axes, lp_svm.curves(found, data))
        axes.set_title({"adult": "Adult", "kdd": "KDDCup99"}[data])
        axes.set_xlabel("epsilon")
        axes.set_ylabel("test error")
        plain = lp_svm.means(found["table"])[data, "qp"]
        axes.axhline(plain, color="black", linewidth=0.8, linestyle=":")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_high_dimension(found: dict[str, Any], path: Path) -> None:
    """Accuracy by epsilon, by zero columns, and on the simplex."""
    figure, panels = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
    cell = {tuple(entry[:4]): entry[4] for entry in found["perturbation"]}
    first = high_dimension.LAMBDAS[0]
    names = high_dimension.MECHANISMS
    lines(
        panels[0],
        {
            name: {e: cell[name, high_dimension.WIDTH, e, first] for e in high_dimension.EPSILONS}
            for name in names
        },
    )
    lines(
        panels[1],
        {name: {p: cell[name, p, 0.5, first] for p in high_dimension.WIDTHS} for name in names},
    )
    shares = {(lambda_, p): rest for lambda_, p, *rest in found["simplex"]}
    lines(
        panels[2],
        {
            f"{title}, lambda {lambda_:g} / n": {
                p: shares[lambda_, p][place] for p in high_dimension.SIMPLEX_OPTIONS
            }
            for lambda_ in high_dimension.SIMPLEX_LAMBDAS
            for title, place in (("released", 0), ("minimiser", 2))
        },
    )
    titles = ("(a) 8 columns", "(b) zero columns, epsilon 0.5", "(c) the simplex, epsilon 10")
    for axes, title, label in zip(
        panels, titles, ("epsilon", "columns", "signed columns"), strict=True
    ):
        axes.set_title(title, fontsize=10)
        axes.set_xlabel(label)
        axes.set_ylabel("test accuracy")
        axes.set_ylim(min(0.45, *np.array(axes.get_ylim())), 1.0)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_suggested_bounds(found: dict[str, Any], path: Path, eps: str = "0.5") -> None:
    """Area under the curve by how loose the bounds are, for both tables."""
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    shown = {name: found[name] for name in ("adult", "bank")}
    for axes, (name, models) in zip(panels, shown.items(), strict=True):
        area = {arm: numbers[1][0] for arm, numbers in models["dpsvm"][eps].items()}
        names = {
            "suggested for a fifth": "suggested from {} times",
            "loose": "{} times, no suggestion",
        }
        factors = suggested_bounds.FACTORS
        lines(
            axes, {title: {k: area[arm.format(k)] for k in factors} for title, arm in names.items()}
        )
        axes.axhline(area["oracle"], color="black", linewidth=0.8, linestyle=":")
        axes.set_title({"adult": "Adult", "bank": "bank"}[name])
        axes.set_xticks(factors, map(str, factors))
        axes.minorticks_off()
        axes.set_xlabel("outer range over the largest value")
        axes.set_ylabel("area under the ROC curve")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=VIGNETTES)
    folder = parser.parse_args().folder
    draw_high_dimension(stored("high_dimension")["results"], folder / "high-dimension.png")
    draw_lp_svm(stored("lp_svm")["results"], folder / "lp-svm.png")
    draw_suggested_bounds(stored("suggested_bounds")["results"], folder / "choosing-bounds.png")


if __name__ == "__main__":
    main()
