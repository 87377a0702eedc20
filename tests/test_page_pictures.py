"""The command for pictures of pages knows every page, and asks for light and for dark."""

import ast
import inspect
import re
import shutil

import numpy as np
import page_pictures
import pytest
from matplotlib import image
from structure import MODULES

from privatelr import Ledger

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


def classes_with_pages():
    """Names of the classes that say how they look in a notebook."""
    return {
        node.name
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
        and any(getattr(part, "name", "") == "_repr_html_" for part in node.body)
    }


PICTURED = {
    "Calibration": "calibration",
    "Ledger": "ledger",
    "MarginalEffects": "effects",
    "ModelRecord": "fit",
    "Paged": "roc",
    "PrivateFTRL": "online",
    "Strata": "strata",
}
"""The page of each class that has one."""


def test_every_class_with_a_page_has_a_name_for_its_picture():
    names = re.findall(r'^ {8}"([\w-]+)": lambda', inspect.getsource(page_pictures.pages), re.M)
    assert len(names) == len({*names}) > 20
    assert classes_with_pages() == {*PICTURED}
    assert {*PICTURED.values()} <= {*names}


@pytest.mark.full
def test_pages_are_of_their_classes():
    made = page_pictures.pages()
    for kind, name in PICTURED.items():
        assert kind in {one.__name__ for one in type(made[name]()).__mro__}


@pytest.mark.full
@pytest.mark.skipif(BROWSER is None, reason="takes Chromium")
def test_a_picture_is_light_or_dark(tmp_path):
    ledger = Ledger(epsilon=1.0)
    for name, ground in (("light", 1.0), ("dark", 17 / 255)):
        page_pictures.photograph(ledger, tmp_path / f"{name}.png", name)
        found = image.imread(tmp_path / f"{name}.png")
        assert np.median(found[..., :3]) == pytest.approx(ground, abs=0.02)
