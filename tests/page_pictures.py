"""Pictures of every page in HTML, in light and in dark, for eyes: no test says what is ugly.

    python -m tests.page_pictures                      vignettes/page.png, which README shows
    python -m tests.page_pictures --all FOLDER         every page, by headless Chromium
    python -m tests.page_pictures --all FOLDER ledger  some of them

Pages of notebooks stand in the ground, the letters and the tables of JupyterLab; cards are
documents and ask the browser for its scheme. tests/test_page_colours.py measures the contrast.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import image

import privatelr as lr

README = Path(__file__).resolve().parents[1] / "vignettes" / "page.png"
GROUNDS = {"light": ("#ffffff", "#212121", "#f5f5f5"), "dark": ("#111111", "#e0e0e0", "#1c1c1c")}
"""Of JupyterLab the ground of outputs, their letters, and every other row of a table."""
BROWSER_SCHEMES = {"light": 1, "dark": 0}
"""What Chromium's engine calls the scheme that a reader prefers."""
SIZE = (900, 4200)
_LAB = """<!DOCTYPE html><meta charset="utf-8"><style>
body {{ background: {ground}; color: {text}; margin: 12px; font: 14px/1.4 system-ui, sans-serif }}
table {{ border-collapse: collapse; border: none; font-size: 12px; table-layout: fixed }}
td, th {{ padding: .5em; border: none; text-align: right; vertical-align: middle }}
tbody tr:nth-child(odd) {{ background: {row} }}
thead {{ border-bottom: 1px solid {text} }}
</style><body>{page}</body>"""


def clinic(n: int = 600) -> Any:
    """Made up records."""
    rng = np.random.default_rng(5)
    columns: dict[str, Any] = {}
    columns["age"] = rng.uniform(18, 90, n).round()
    columns["dose"] = rng.uniform(0, 10, n).round(1)
    columns["smoker"] = rng.choice(["no", "yes"], n)
    chance = 1 / (1 + np.exp(3 - 0.05 * columns["age"] - 0.1 * columns["dose"]))
    columns["ill"] = (rng.random(n) < chance).astype(int)
    columns["site"] = rng.choice(["north", "south", "west"], n)
    return pd.DataFrame(columns)


PUBLIC: dict[str, Any] = {
    "bounds": {"age": (18, 90), "dose": (0, 10)},
    "levels": {"smoker": ["no", "yes"]},
}
FORMULA = "ill ~ age + dose + smoker"


def pages() -> dict[str, Callable[[], Any]]:
    """What makes what has a page, by the name of the page; cards are whole documents."""
    data = clinic()
    fit = lr.dplr(FORMULA, data, eps=2.0, spend="inference", **PUBLIC)
    plain = lr.dplr(FORMULA, data, eps=2.0, **PUBLIC)
    chosen = lr.dplpsvm(FORMULA, data, eps=4.0, rounds=20, **PUBLIC)
    strata = lr.dplr("ill ~ age", data, by="smoker", eps=2.0, spend="inference", **PUBLIC)
    sites = {**PUBLIC, "levels": PUBLIC["levels"] | {"site": ["north", "south", "west"]}}
    several = lr.dpmultinom("site ~ age + dose", data, 2.0, **sites)
    ledger = lr.Ledger(epsilon=5.0)
    lr.dplr(FORMULA, data, eps=2.0, ledger=ledger, **PUBLIC)
    return {
        "fit": lambda: plain,
        "fit-inference": lambda: fit,
        "fit-odds-ratios": lambda: fit.summary(exponentiate=True),
        "fit-diagnostics": lambda: plain.summary(diagnostics=True),
        "fit-not-private": lambda: lr.dplr(FORMULA, data, eps=0, lambda_=0.01, **PUBLIC),
        "calibration": lambda: plain.calibration,
        "classes": lambda: several,
        "strata": lambda: strata,
        "choices": lambda: chosen,
        "choices-calibration": lambda: chosen.calibration,
        "simplex-calibration": lambda: lr.dpsimplex(FORMULA, data, **PUBLIC).calibration,
        "comparison": lambda: lr.compare({"plain": plain, "with errors": fit}),
        "ledger": lambda: ledger,
        "plan": lambda: lr.plan(FORMULA, 600, **PUBLIC),
        "effects": lambda: lr.average_marginal_effects(fit, clinic(100)),
        "check": lambda: lr.check(FORMULA, data, **PUBLIC),
        "roc": lambda: plain.private_roc(clinic(500), eps=1.0),
        "bounds": lambda: lr.suggest_bounds(data, {"age": (0, 1000)}, eps=1.0),
        "choice": lambda: lr.choose({"one": plain, "other": fit}, clinic(200), eps=0.5),
        "online": lambda: lr.PrivateFTRL(n_experts=3, horizon=5, epsilon=1.0),
        "card": lambda: fit.card("html"),
        "card-classes": lambda: several.card("html"),
        "card-strata": lambda: strata.card("html"),
        "card-choices": lambda: chosen.card("html"),
    }


def browser() -> str:
    """The path of Chromium; SystemExit says what is missing."""
    found = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if found is None:
        raise SystemExit("page_pictures takes chromium; Debian's package has that name.")
    return found


def document_of(shown: Any, scheme: str) -> str:
    """A page as JupyterLab shows it; a card is a document as it is."""
    if isinstance(shown, str):
        return shown
    ground, text, row = GROUNDS[scheme]
    return _LAB.format(ground=ground, text=text, row=row, page=shown._repr_html_())


def command(program: str, document: Path, picture: Path, scheme: str) -> list[str]:
    """The command that makes a picture of a document for readers who prefer a scheme."""
    return [
        *(program, "--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu"),
        *(f"--blink-settings=preferredColorScheme={BROWSER_SCHEMES[scheme]}", "--incognito"),
        *(f"--window-size={SIZE[0]},{SIZE[1]}", f"--screenshot={picture}", document.as_uri()),
    ]


def photograph(shown: Any, picture: Path, scheme: str = "light") -> None:
    """Write a picture of a page, without the empty ground around it."""
    with tempfile.TemporaryDirectory() as apart:
        document, raw = Path(apart, "page.html"), Path(apart, "page.png")
        document.write_text(document_of(shown, scheme), encoding="utf-8")
        told = command(browser(), document, raw, scheme)
        told.insert(1, f"--user-data-dir={apart}/profile")
        subprocess.run(told, check=True, capture_output=True, timeout=60)
        image.imsave(picture, trimmed(image.imread(raw)))


def trimmed(picture: np.ndarray[Any, Any], margin: int = 12) -> np.ndarray[Any, Any]:
    """A picture without the rows and columns that have nothing but the colour of its corner."""
    marked = (np.abs(picture - picture[-1, -1]) > 1e-3).any(axis=2)
    rows, columns = (np.flatnonzero(marked.any(axis=axis)) for axis in (1, 0))
    first, left = (max(found[0] - margin, 0) for found in (rows, columns))
    return picture[first : rows[-1] + margin, left : columns[-1] + margin]


def for_readme() -> Any:
    """The fit whose page README shows."""
    votes, public = lr.load_dataset("anes96"), lr.load_schema("anes96")
    return lr.dplr("vote ~ age + selfLR", votes, eps=4.0, spend="inference", **public)


def main() -> None:
    """Write the picture of README, or all of them."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        "python -m tests.page_pictures", description=__doc__, formatter_class=form
    )
    parser.add_argument("--all", metavar="FOLDER", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    given = parser.parse_args()
    if given.all is None:
        photograph(for_readme(), README)
        return
    given.all.mkdir(parents=True, exist_ok=True)
    made = pages()
    for name in given.names or made:
        shown = made[name]()
        for scheme in GROUNDS:
            photograph(shown, given.all / f"{name}-{scheme}.png", scheme)


if __name__ == "__main__":
    main()
