"""Errors at equal epsilon: privatelr, packages of Python and R, and no privacy.

    python3 -m venv peers && peers/bin/pip install diffprivlib==0.6.6 'scikit-learn<1.6'
    python -m tests.studies.peer_errors --diffprivlib peers/bin/python --rscript Rscript \\
        [--r-library FOLDER] [--repeats 20] [--write]
    python -m tests.studies.peer_errors --draw

Without ``--diffprivlib`` or ``--rscript`` their fits are left out, and what is stored of them
stays. ``--only`` names the fits to run; the divisions are the same in any case. ``--gamma`` looks
at DPpack with another gamma, and is not for ``--write``.

Every table is divided at random into 80 % for fits and 20 % for their errors, anew in each repeat.
All fits are told the same bounds and levels, and nothing else:

- privatelr by `dplr` as it stands;
- diffprivlib's ``LogisticRegression`` as it stands, on numbers mapped to [-1, 1] by the bounds and
  indicators of levels, with ``data_norm`` the length that no such row exceeds. It runs in a Python
  of its own, since it does not know newer versions of scikit-learn;
- R's PrivateLR and DPpack, on the same rows, as `peers_in_r` says;
- the formulas of PrivateLR's ``dplr``, on the same rows: `dplr` with ``analysis="cms11"`` and its
  rule for lambda, as from-r.md compares them with numbers of R. The intercept counts in them;
- scikit-learn's ``LogisticRegression`` of the same rows, standardised, which promises nothing.

Stored are the mean area under the ROC curve and the mean log loss of the other 20 %, each with its
standard error. At a stated epsilon of 1 diffprivlib may spend more, as what-is-guaranteed.md says.
"""

from __future__ import annotations

import argparse
import io
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from privatelr import dplr

from .peers_in_r import DPPACK, GAMMA, PRIVATELR, InR, by_r
from .scale_tables import TABLES, Table, read_table
from .stored import store, stored
from .tables import data_home

if TYPE_CHECKING:
    from collections.abc import Set

    import pandas as pd

PICTURE = Path(__file__).resolve().parents[2] / "vignettes" / "peers.png"
SHOWN = ("adult", "bank", "spambase", "anes96")
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
OURS, THEIRS, R, PLAIN = "privatelr", "diffprivlib", "PrivateLR's formulas", "no privacy"
DRAWN = (OURS, THEIRS, PRIVATELR, DPPACK, PLAIN)
"""Fits of the picture, where PrivateLR hides its formulas."""
MARKS: dict[str, tuple[str, Any]] = {
    OURS: ("o", "-"),
    THEIRS: ("s", "--"),
    PRIVATELR: ("v", (0, (5, 1, 1, 1, 1, 1))),
    R: ("^", "-."),
    DPPACK: ("D", (0, (1, 1))),
    PLAIN: ("", ":"),
}
COMMAND = (
    "python -m tests.studies.peer_errors --diffprivlib PYTHON --rscript RSCRIPT"
    " --repeats {} --write"
)
SCRIPT = """
import io, sys, warnings
import numpy as np
from diffprivlib.models import LogisticRegression
warnings.simplefilter("ignore")
given = np.load(io.BytesIO(sys.stdin.buffer.read()))
found = []
for eps in given["eps"]:
    model = LogisticRegression(epsilon=float(eps), data_norm=float(given["norm"]))
    found.append(model.fit(given["x"], given["y"]).decision_function(given["test"]))
np.save(sys.stdout.buffer, np.array(found))
"""
Errors = dict[str, dict[str, list[tuple[float, float]]]]


@dataclass(frozen=True)
class Asked:
    """Which fits are run, and where those of other programs are.

    Attributes
    ----------
    kinds : set of str
    python : str or None
        A Python that has diffprivlib.
    r : InR or None
    """

    kinds: Set[str] = frozenset(MARKS)
    python: str | None = None
    r: InR | None = None


def rows(frame: pd.DataFrame, table: Table) -> np.ndarray:
    """Numbers in [-1, 1] by their bounds, and indicators of all levels but the first."""
    columns = [
        np.clip(2 * (frame[name].to_numpy(float) - low) / (high - low) - 1, -1, 1)
        for name, (low, high) in table.bounds.items()
    ]
    for name, levels in table.levels.items():
        columns += [(frame[name] == level).to_numpy(float) for level in levels[1:]]
    return np.column_stack(columns)


def longest(table: Table) -> float:
    """The length that no row exceeds: a factor adds at most one indicator."""
    return float(np.sqrt(len(table.bounds) + len(table.levels)))


def by_diffprivlib(
    python: str, x: np.ndarray, y: np.ndarray, test: np.ndarray, norm: float
) -> dict[float, np.ndarray]:
    """Linear predictors of other rows at each epsilon, computed by that Python."""
    given = io.BytesIO()
    np.savez(given, x=x, y=y, test=test, norm=norm, eps=np.array(EPSILONS))
    ran = subprocess.run(
        [python, "-c", SCRIPT], input=given.getvalue(), capture_output=True, check=True
    )
    found = np.load(io.BytesIO(ran.stdout))
    return dict(zip(EPSILONS, found, strict=True))


def by_us(table: Table, train: pd.DataFrame, test: pd.DataFrame) -> dict[float, np.ndarray]:
    """Linear predictors of other records by `dplr` as it stands."""
    public: dict[str, Any] = {"bounds": table.bounds, "levels": table.levels}
    return {
        eps: dplr(table.formula, train, eps=eps, **public).predict(test, type="link")
        for eps in EPSILONS
    }


def by_formulas(
    x: np.ndarray, y: np.ndarray, test: np.ndarray, norm: float
) -> dict[float, np.ndarray]:
    """Linear predictors of other rows by PrivateLR's formulas, the intercept in the radius."""
    of_r: dict[str, Any] = {"row_norm": norm, "analysis": "cms11", "lambda_": "PrivateLR"}
    positive = y == 1
    return {eps: dplr(positive, x, eps=eps, **of_r).predict(test, type="link") for eps in EPSILONS}


def errors_of(truth: np.ndarray, link: np.ndarray) -> tuple[float, float]:
    """Area under the curve and log loss of linear predictors."""
    finite = np.nan_to_num(link)
    probability = special.expit(np.clip(finite, -700, 700))
    return float(roc_auc_score(truth, finite)), float(log_loss(truth, probability))


def divided(table: Table, frame: pd.DataFrame, repeat: int) -> list[pd.DataFrame]:
    """Four fifths of a table and the others, at random by the number of the repeat."""
    order = np.random.default_rng(repeat).permutation(len(frame))
    cut = len(frame) * 4 // 5
    return [frame.iloc[part].reset_index(drop=True) for part in (order[:cut], order[cut:])]


def once(table: Table, frame: pd.DataFrame, repeat: int, asked: Asked) -> Errors:
    """The errors of every fit that is asked for to one division of a table."""
    train, test = divided(table, frame, repeat)
    truth, norm = test[table.response].to_numpy(), longest(table)
    x, others = rows(train, table), rows(test, table)
    y = train[table.response].to_numpy().astype(float)
    links: dict[str, dict[float, np.ndarray]] = {}
    if OURS in asked.kinds:
        links[OURS] = by_us(table, train, test)
    if R in asked.kinds:
        links[R] = by_formulas(x, y, others, norm)
    if PLAIN in asked.kinds:
        plain = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(x, y)
        links[PLAIN] = dict.fromkeys(EPSILONS, plain.decision_function(others))
    if THEIRS in asked.kinds and asked.python is not None:
        links[THEIRS] = by_diffprivlib(asked.python, x, y, others, norm)
    if asked.kinds & {PRIVATELR, DPPACK} and asked.r is not None:
        links |= by_r(asked.r, table, (x, y), others, norm, EPSILONS)
    return {
        kind: {f"{eps:g}": [errors_of(truth, np.asarray(link, float))] for eps, link in by.items()}
        for kind, by in links.items()
        if kind in asked.kinds
    }


def measure(name: str, repeats: int, asked: Asked) -> Errors:
    """The errors of every fit to a table, one for each repeat."""
    table, home = TABLES[name], data_home()
    assert home is not None, "set PRIVATELR_DATA_HOME, where the tables are"
    frame, found = read_table(name, home), Errors()
    for repeat in range(repeats):
        for kind, prices in once(table, frame, repeat, asked).items():
            for eps, pairs in prices.items():
                found.setdefault(kind, {}).setdefault(eps, []).extend(pairs)
    return found


def summary(found: Errors) -> dict[str, dict[str, list[list[float]]]]:
    """Mean and standard error of area and of log loss, for each fit and epsilon."""
    return {
        kind: {
            eps: [
                [float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))]
                for values in zip(*pairs, strict=True)
            ]
            for eps, pairs in prices.items()
        }
        for kind, prices in found.items()
    }


def markdown(results: dict[str, Any], place: int) -> list[str]:
    """A table of areas (0) or log losses (1) with a line for each table and epsilon."""
    lines = [f"| table | eps | {' | '.join(MARKS)} |", "|---" * (2 + len(MARKS)) + "|"]
    for name in SHOWN:
        for eps in (f"{eps:g}" for eps in EPSILONS):
            cells = [results[name][kind][eps][place] for kind in MARKS]
            shown = " | ".join(f"{mean:.3f} ({error:.3f})" for mean, error in cells)
            lines.append(f"| {name} | {eps} | {shown} |")
    return lines


def draw(results: dict[str, Any], path: Path) -> None:
    """Areas under the curve by epsilon, a panel for each table."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    from privatelr.plot_style import COLOURS

    figure, panels = plt.subplots(1, len(SHOWN), figsize=(11, 3.5), layout="constrained")
    for axes, name in zip(panels, SHOWN, strict=True):
        for colour, kind in zip(COLOURS, DRAWN, strict=False):
            mark, line = MARKS[kind]
            cells = [results[name][kind][f"{eps:g}"][0] for eps in EPSILONS]
            mean, error = np.array(cells).T
            look: dict[str, Any] = {"color": colour, "marker": mark, "linestyle": line}
            axes.errorbar(EPSILONS, mean, 2 * error, label=kind, markersize=4, capsize=2, **look)
        axes.set_xscale("log")
        axes.set_xticks(EPSILONS, [f"{eps:g}" for eps in EPSILONS])
        axes.set_title(f"{name}, n = {TABLES[name].n:,}", fontsize=10)
        axes.set_xlabel("epsilon")
        axes.grid(visible=True, alpha=0.3)
    panels[0].set_ylabel("area under the ROC curve")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=8, loc="outside lower center", ncols=len(DRAWN))
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Measure and store, or draw what is stored."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--diffprivlib", metavar="PYTHON")
    parser.add_argument("--rscript", metavar="RSCRIPT")
    parser.add_argument("--r-library", metavar="FOLDER")
    parser.add_argument("--gamma", type=float, default=GAMMA)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--tables", nargs="+", default=SHOWN, choices=SHOWN)
    parser.add_argument("--only", nargs="+", default=[*MARKS], choices=[*MARKS])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--draw", action="store_true")
    chosen = parser.parse_args()
    if chosen.draw:
        draw(stored("peer_errors")["results"], PICTURE)
        return
    if chosen.write and chosen.gamma != GAMMA:
        parser.error("--gamma is not for --write")
    r = InR(chosen.rscript, chosen.r_library, chosen.gamma) if chosen.rscript else None
    asked = Asked({*chosen.only}, chosen.diffprivlib, r)
    for name in chosen.tables:
        results = summary(measure(name, chosen.repeats, asked))
        if chosen.write:
            before = stored("peer_errors")["results"].get(name, {})
            store("peer_errors", COMMAND.format(chosen.repeats), {name: before | results})
        for kind, prices in results.items():
            shown = "  ".join(f"{eps}: {a[0]:.3f} {b[0]:.3f}" for eps, (a, b) in prices.items())
            print(f"{name:10} {kind:22} {shown}", flush=True)


if __name__ == "__main__":
    main()
