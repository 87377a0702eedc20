"""The ratios of a run as one picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from matplotlib.figure import Figure

MARKS = ("o", "s", "^", "D", "v", "P", "X")
"""With the six colours these are 42 looks, none of them twice."""


def plot(cells: dict[str, Any], file: str | Path) -> Figure:
    """A mark for each problem and peer, left of one where the package is faster."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from privatelr.plot_style import COLOURS

    names = list(dict.fromkeys(name for cell in cells.values() for name in cell["peers"]))
    figure = Figure(figsize=(8, 1.5 + 0.45 * len(cells)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for index, peer in enumerate(names):
        colour, mark = COLOURS[index % len(COLOURS)], MARKS[index % len(MARKS)]
        for row, cell in enumerate(cells.values()):
            if peer not in cell["peers"]:
                continue
            found = cell["peers"][peer]
            height = row + (index - len(names) / 2) / (2 * len(names))
            axes.plot(
                [found["low"], found["high"]],
                [height] * 2,
                color=colour,
                lw=1,
            )
            filling = colour if found["equal"] else "white"
            axes.plot(found["median"], height, mark, color=colour, mfc=filling, ms=5)
        axes.plot([], [], mark, color=colour, ms=5, label=peer)
    axes.axvline(1.0, color="grey", lw=0.8)
    axes.set_xscale("log")
    axes.set_yticks(range(len(cells)), list(cells))
    axes.invert_yaxis()
    axes.set_xlabel("time, ours / theirs (hollow: the peer ends at a larger gradient)")
    figure.legend(loc="outside upper center", ncols=3, fontsize="small", frameon=False)
    figure.savefig(Path(file), dpi=150)
    return figure
