"""``seq(20, 60, 10)`` as knots and breaks, and other spellings of R for splines and powers."""

import numpy as np
import pandas as pd
import pytest

from privatelr import FormulaError, dplr
from privatelr.formula import number_list
from privatelr.formula.parser import parse, tokenize

BOUNDS = {"age": (0.0, 100.0), "y": (0, 1)}
FRAME = pd.DataFrame({"age": np.linspace(0, 100, 60), "y": np.arange(60) % 2})


def fitted(term):
    return dplr(f"y ~ {term}", FRAME, 0, 1e-3, bounds=BOUNDS)


@pytest.mark.parametrize(
    ("spelled", "numbers"),
    [
        # as R 4.4 prints them
        ("seq(20, 60, 10)", "20, 30, 40, 50, 60"),
        ("seq(20, 60, by = 10)", "20, 30, 40, 50, 60"),
        ("seq(from = 20, to = 60, by = 15)", "20, 35, 50"),
        ("seq(20, 23)", "20, 21, 22, 23"),
        ("seq(20, 22.5)", "20, 21, 22"),
        ("seq(0.1, 0.7, 0.1)", "0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7"),
        ("seq(20, 60, length.out = 3)", "20, 40, 60"),
        ("seq(to = 80, 20, length = 4)", "20, 40, 60, 80"),
    ],
)
@pytest.mark.parametrize("call", ["bs(age, knots = {})", "ns(age, knots = {})", "cut(age, {})"])
def test_a_sequence_is_its_numbers(spelled, numbers, call):
    one, other = fitted(call.format(spelled)), fitted(call.format(f"c({numbers})"))
    np.testing.assert_allclose(one.coef.to_numpy(), other.coef.to_numpy(), atol=1e-9)


def test_rounding_ends_no_sequence_beside_its_end():
    """In doubles .1 + 3 * .3 is below 1, so a value of 1 would lie in no interval."""
    assert 0.1 + 3 * 0.3 != 1
    call = parse(tokenize("seq(0.1, 1, 0.3)"))
    assert number_list(call, "seq")[-1] == 1.0
    assert number_list(parse(tokenize("seq(1, 0.1, by = -0.3)")), "seq")[-1] == 0.1
    assert number_list(parse(tokenize("seq(0.1, 1, 0.4)")), "seq")[-1] < 0.91


def test_breaks_may_be_named_and_a_step_may_be_negative():
    one = fitted("cut(age, breaks = seq(0, 100, 25))")
    assert len(one.coef) == 4
    with pytest.raises(FormulaError, match="rise"):
        fitted("bs(age, knots = seq(60, 20, -20))")


@pytest.mark.parametrize(
    "call",
    [
        "seq(20, 60, -10)",
        "seq(20)",
        "seq(20, age, 10)",
        "seq(20, Inf, 10)",
        "seq(0, 1, 1e-9)",
        "seq(20, 60, length.out = 2.5)",
        "seq(20, 60, length.out = 1e9)",
    ],
)
def test_what_is_no_sequence_is_refused_in_a_sentence(call):
    with pytest.raises(FormulaError, match="public numbers") as raised:
        fitted(f"bs(age, knots = {call})")
    assert "\n" not in str(raised.value)
