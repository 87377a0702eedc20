"""Where a falling curve comes down to a height."""

import math

import pytest

from privatelr.planning.needed_records import Axis, crossing, three_digits

AXIS = Axis(10.0, 1e8, lambda x: float(round(three_digits(x))))


def counted(curve):
    """The curve, and the places where it was computed."""
    places = []

    def height(x):
        places.append(x)
        return curve(x)

    return height, places


CURVES = {
    "sampling": lambda x: 10 / math.sqrt(x),
    "noise": lambda x: 300 / x,
    "both": lambda x: math.hypot(10 / math.sqrt(x), 3000 / x),
    "slow": lambda x: x**-0.2,
    "jump": lambda x: (50 if x < 3000 else 1) / math.sqrt(x),
}


@pytest.mark.parametrize("start", [10, 500, 40_000, 1e8])
@pytest.mark.parametrize("name", CURVES)
def test_what_is_found_is_enough_and_hardly_more(name, start):
    curve, places = counted(CURVES[name])
    width = CURVES[name](2000.0) if name != "jump" else 0.1
    found = crossing(curve, width, start, AXIS)
    assert CURVES[name](found.place) <= width
    assert CURVES[name](0.93 * found.place) > width
    assert found.least == min(map(CURVES[name], places))
    assert len(places) <= 25
    assert all(x == AXIS.nearest(x) for x in places)


def test_from_near_it_takes_few_steps():
    curve, places = counted(CURVES["both"])
    crossing(curve, CURVES["both"](2000.0), 3000, AXIS)
    assert len(places) <= 6


def test_what_is_low_everywhere_is_low_at_the_lowest_place():
    assert crossing(lambda x: 1.0, 2.0, 5000, AXIS).place == AXIS.low


def test_what_is_never_low_is_not_found():
    found = crossing(lambda x: 3 + 1 / x, 2.0, 5000, AXIS)
    assert found.place is None
    assert found.least == pytest.approx(3)


def test_a_curve_that_also_rises_is_followed_from_its_far_side():
    found = crossing(lambda x: min(x / 1000, 1000 / x), 0.5, 4000, AXIS)
    assert found.place == pytest.approx(2000, rel=0.02)
