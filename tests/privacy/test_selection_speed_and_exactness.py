"""The quick look at a choice never decides otherwise than balls would, and asks no bit twice."""

import secrets

import numpy as np
import pytest
from flint import arb

from privatelr.locks import working_precision
from privatelr.privacy.noise import (
    ExactDraw,
    SeededRandomness,
    SystemRandomness,
    exponential_mechanism,
)
from privatelr.privacy.noise.exponential_mechanism import ExponentialMechanism, Gumbel

ODD = [0, 1, 2**10, 2**52, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2**20, 2**64 - 2, 2**64 - 1]


class Recorded:
    """A secret source that keeps what it gave, and can give it again."""

    is_secret = True

    def __init__(self, words=None):
        self.asked, self.words, self.drawn = [], words, None

    def bits(self, count):
        self.asked.append(count)
        if self.words is not None and count == 64 * len(self.words):
            return int.from_bytes(np.array(self.words, dtype="<u8").tobytes(), "little")
        return secrets.randbits(count)

    def draw(self, recipe):
        self.drawn = ExactDraw(recipe, self.bits)
        return self.drawn


@pytest.mark.parametrize("seed", range(3))
def test_doubles_hold_the_numbers(seed):
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 2**64, 300, dtype=np.uint64)
    words[: len(ODD)] = ODD
    small = rng.integers(0, 63, 100)
    words[100:200] >>= small.astype(np.uint64)
    words[200:300] = ~(words[200:300] >> small.astype(np.uint64))
    found, errors = Gumbel.near(words)
    with working_precision(256):
        for word, number, error in zip(words.tolist(), found, errors, strict=True):
            for end in (word, word + 1):
                if end in (0, 2**64) or not np.isfinite(error):
                    continue
                exact = -((-((arb(end) / arb(2) ** 64).log())).log())
                assert abs(exact - arb(float(number))) <= float(error)
    ordinary = Gumbel.near(rng.integers(0, 2**64, 300, dtype=np.uint64))[1]
    assert np.median(ordinary) < 1e-12


@pytest.mark.parametrize("spread", [0.0, 1.0, 1e3, 1e9])
def test_the_quick_look_and_balls_agree(spread, monkeypatch):
    rng = np.random.default_rng(5)
    mechanism = ExponentialMechanism(0.3, 0.1)
    for _ in range(60):
        scores = spread * rng.standard_normal(12)
        source = Recorded()
        quick = mechanism.choose(scores, source)
        draw = source.drawn
        with monkeypatch.context() as patch:
            patch.setattr(ExponentialMechanism, "_in_doubles", lambda *_: None)
            source.draw = lambda _, draw=draw: draw
            assert mechanism.choose(scores, source) == quick


def test_scores_apart_by_less_than_doubles_see_are_left_to_balls():
    """Two equal words: the numbers agree to 64 bits, and further bits of the same draw decide."""
    words = [2**62 + 5] * 2 + [3] * 4
    source = Recorded(words)
    found = [ExponentialMechanism(1.0, 1.0).choose(np.zeros(6), source) for _ in range(40)]
    assert set(found) == {0, 1}
    assert source.asked[:7] == [64 * 6] + [32] * 6  # the same numbers, extended
    assert [p >> 32 for p in source.drawn._prefixes] == words


def test_too_bold_an_error_is_caught(monkeypatch):
    """The planted slip: no allowance for rounding, so that a tie goes to the first."""
    monkeypatch.setattr(exponential_mechanism, "_ROUNDING", 0.0)
    near = Gumbel.near
    monkeypatch.setattr(
        Gumbel, "near", staticmethod(lambda w: (near(w)[0] + [1e-13, 0], np.zeros(2)))
    )
    mechanism, source = ExponentialMechanism(1.0, 1.0), Recorded([2**62 + 5] * 2)
    found = {mechanism.choose(np.zeros(2), source) for _ in range(40)}
    assert found == {0}  # and not both, as above


@pytest.mark.parametrize("size", [1e5, 1e15, 1e300])
def test_scores_of_any_size(size):
    scores = np.array([0.0, -size, size, size / 2])
    for source in (SystemRandomness(), SeededRandomness(0)):
        assert ExponentialMechanism(1e3, 1.0).choose(scores, source) == 2


def test_seeded_choices_do_not_change():
    mechanism, source = ExponentialMechanism(1.0, 1.0), SeededRandomness(7)
    scores = np.linspace(0, 2, 8)
    found = [mechanism.choose(scores, source) for _ in range(10)]
    again = SeededRandomness(7)
    expected = [
        int(
            np.argmax(
                scores + np.array([float(g.mid()) for g in again.draw(Gumbel(8)).enclose(64)])
            )
        )
        for _ in range(10)
    ]
    assert found == expected
