"""Where a falling curve comes down to a height."""

import math

import pytest

from privatelr.planning.needed_records import crossing, three_digits

ENDS = (10.0, 1e8)


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
    place, least = crossing(curve, width, start, ENDS)
    assert CURVES[name](place) <= width
    assert CURVES[name](0.93 * place) > width
    assert least == min(map(CURVES[name], places))
    assert len(places) <= 25
    assert all(x == three_digits(x) and ENDS[0] <= x <= ENDS[1] for x in places)


def test_from_near_it_takes_few_steps():
    curve, places = counted(CURVES["both"])
    crossing(curve, CURVES["both"](2000.0), 3000, ENDS)
    assert len(places) <= 6


def test_a_curve_that_also_rises_is_followed_from_its_far_side():
    place, _ = crossing(lambda x: min(x / 1000, 1000 / x), 0.5, 4000, ENDS)
    assert place == pytest.approx(2000, rel=0.02)
