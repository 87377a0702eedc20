"""A calibration in a notebook: tables of its facts, and a line where no tables are shown."""

import re
from html.parser import HTMLParser

import pytest
from case_names import case_name
from frames_for_laws import clinic, fit_clinic

from privatelr import ZCDP, dplpsvm, dpsimplex, dpsvm

CASES = [
    {},
    {"op": False},
    {"delta": 1e-6},
    {"eps": ZCDP(0.5)},
    {"eps": 0},
    {"model": dpsvm, "loss": "softplus"},
    {"analysis": "cms11", "lambda_": "PrivateLR"},
]
EVERY_CASE = pytest.mark.parametrize("options", CASES, ids=case_name)


class Table(HTMLParser):
    """The rows of a page, whose tags have to be closed in order."""

    def __init__(self, page):
        super().__init__()
        self.rows, self.open = [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] in ("th", "td"):
            self.rows[-1].append(data)


def rows(calibration):
    return dict(Table(calibration._repr_html_()).rows)


@EVERY_CASE
def test_every_number_of_the_text_is_on_the_page(options):
    calibration = fit_clinic(clinic(), **options).calibration
    page, text = calibration._repr_html_(), str(calibration)
    number = r"\d+(?:\.\d+)?(?:e[-+]\d+)?"
    assert set(re.findall(number, text)) <= set(re.findall(number, page))
    found = rows(calibration)
    assert found["Target"] == str(calibration.target)
    assert found["Lambda"].endswith(calibration.lambda_origin)
    assert ("Noise" in found) == (options.get("eps") != 0)


@EVERY_CASE
def test_alternatives_are_rows_beside_the_chosen_noise(options):
    calibration = fit_clinic(clinic(), **options).calibration
    found = rows(calibration)
    for title, ratio in calibration.alternatives:
        assert found[title] in (f"{ratio:.3g}", "not possible")
    chosen = [label for label in found if label.endswith("(chosen)")]
    assert len(chosen) == bool(calibration.alternatives)
    assert all(found[label] == "1" for label in chosen)


@pytest.mark.parametrize("model", [dplpsvm, dpsimplex])
def test_calibrations_of_choices_too(model):
    calibration = fit_clinic(clinic(), model=model).calibration
    found = rows(calibration)
    assert found.pop("Rows") == "n = 40, d = 4, no entry above 1 in size"
    assert found == {"Target": str(calibration.target), **dict(calibration.facts)}
    assert calibration.title in calibration._repr_html_()


def test_a_line_where_there_are_no_tables():
    calibration = fit_clinic(clinic()).calibration
    assert repr(calibration) == (
        "<Calibration: objective perturbation, block Laplace, epsilon = 1 (pure)>"
    )
