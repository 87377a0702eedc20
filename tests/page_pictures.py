"""Pictures of pages as a browser shows them, in both schemes, by a Chromium without a window.

    python -m tests.page_pictures                    writes vignettes/page.png, which README shows
    python -m tests.page_pictures --all FOLDER       one of every kind of page, light and dark

To be looked at: what a page needs to be readable is computed in tests/test_page_colours.py.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import image

from privatelr import Ledger, compare, dplr, load_dataset, load_schema, plan

if TYPE_CHECKING:
    from collections.abc import Iterator

README = Path(__file__).resolve().parents[1] / "vignettes" / "page.png"
FORMULA = "vote ~ age + selfLR"
SCHEMES = {"light": ("#ffffff", "#212121", 2), "dark": ("#111111", "#e0e0e0", 0)}
"""Of each scheme the ground and the text of a notebook, and what Chromium calls it."""
_QUIET = ("--disable-background-networking", "--disable-component-update", "--disable-sync")


def browser() -> str:
    """The path of Chromium; SystemExit says what is missing."""
    found = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if found is None:
        raise SystemExit("page_pictures takes chromium; Debian's package has that name.")
    return found


def photograph(html: str, path: Path, scheme: str = "light", width: int = 900) -> None:
    """Write a picture of a page of HTML, without the empty ground around it."""
    ground, text, preferred = SCHEMES[scheme]
    style = f":root {{color-scheme: {scheme}; background: {ground}; color: {text}}}"
    style += "body {margin: 16px; font: 14px/1.3 'DejaVu Sans', sans-serif}"  # as notebooks have
    with tempfile.TemporaryDirectory() as folder:
        page, raw = Path(folder, "page.html"), Path(folder, "page.png")
        page.write_text(f"<!doctype html><meta charset=utf-8><style>{style}</style>{html}")
        command = [browser(), "--headless", "--no-sandbox", "--disable-gpu", *_QUIET]
        command += [f"--blink-settings=preferredColorScheme={preferred}", "--hide-scrollbars"]
        command += [f"--window-size={width},2400", f"--screenshot={raw}", f"file://{page}"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(command, check=True, env={**os.environ, "HOME": folder}, **quiet)
        image.imsave(path, trimmed(image.imread(raw)))


def trimmed(picture: np.ndarray[Any, Any], margin: int = 12) -> np.ndarray[Any, Any]:
    """A picture without the rows and columns that have nothing but the colour of its corner."""
    marked = (np.abs(picture - picture[-1, -1]) > 1e-3).any(axis=2)
    rows, columns = (np.flatnonzero(marked.any(axis=axis)) for axis in (1, 0))
    first, last = max(rows[0] - margin, 0), rows[-1] + margin
    return picture[first:last, max(columns[0] - margin, 0) : columns[-1] + margin]


def fitted(**options: Any) -> Any:
    return dplr(FORMULA, load_dataset("anes96"), eps=4.0, **load_schema("anes96"), **options)


def pages() -> Iterator[tuple[str, str]]:
    """The name and the HTML of one of every kind of page."""
    with Ledger(epsilon=12.0) as ledger:
        full, plain = fitted(spend="inference"), fitted()
        bought = fitted(spend={"coefficients": 0.5, "roc": 0.5})
    public = {"bounds": load_schema("anes96")["bounds"]}
    yield "fit", full.summary().as_html()
    yield "odds", full.summary(exponentiate=True).as_html()
    yield "void", fitted(seed=1)._repr_html_()
    yield "comparison", compare({"full": full, "plain": plain}).as_html()
    yield "plan", plan(FORMULA, n=944, eps=4.0, **public)._repr_html_()
    yield "ledger", ledger._repr_html_()
    yield "calibration", full.calibration._repr_html_()
    yield "roc", bought.roc._repr_html_()
    yield "card", full.card("html")


def main() -> None:
    """Write the picture of README, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", metavar="FOLDER", type=Path)
    folder = parser.parse_args().all
    if folder is None:
        photograph(fitted(spend="inference").summary().as_html(), README)
        return
    folder.mkdir(parents=True, exist_ok=True)
    for name, html in pages():
        for scheme in SCHEMES:
            photograph(html, folder / f"{name}-{scheme}.png", scheme)


if __name__ == "__main__":
    main()
