"""Ten thousand damaged files: each is refused in one sentence, or is what a plain reading says."""

import io
import os
import random
import re
import time
import tracemalloc

import numpy as np
import pytest

from privatelr.errors import GuaranteeError
from privatelr.privacy.noise import SystemRandomness
from privatelr.selection import matrix_text
from privatelr.selection.c_programs import (
    ALL,
    LRSIMPLE,
    NON_PRIVATE,
    OBJECTIVE,
    OUTPUT,
    SVMSIMPLE,
    run_program,
)
from privatelr.selection.matrix_text import LONGEST, MatrixFileError, read_header, read_rows

READ, COMPUTED = 9_400, 600
SECONDS, MEMORY = 2.0, 200e6
PROGRAMS = {"lr": LRSIMPLE, "svm": SVMSIMPLE}
SEED = 4 if os.environ.get("CI") else random.randrange(2**32)
JUNK = (
    *("nan", "inf", "-", "+", "e", ".", "1e", "0x1F", "1_0", "1,5", "1e999", "-1e999", "1e-999"),
    *("-0", "0", "2", "1e18", "1e15", "-3", "2.5", "9" * 400, "1" * (LONGEST + 1), "1." * 50),
    *("0." + "0" * 1500 + "1", "\0", "\x1b[2J", "\u0663", "\ufeff", "#", '"', "1 1", "\r", "5"),
)
LEGAL = {
    "lambda": ("1e-12", "1e-9", "1e-6", "1e-3", "1", "1e4", "1e12"),
    "eps": ("1e-9", "1e-4", "0.01", "1", "100", "1e4"),
    "h": ("1e-3", "0.01", "0.1", "0.5"),
}


def example(kind, rng, n=150, d=5):
    """A file in the published format, as text."""
    noise = np.random.default_rng(rng.randrange(2**32))
    x = noise.uniform(-1, 1, (n, d)) / d**0.5
    y = np.where(x @ np.ones(d) + noise.normal(size=n) > 0, 1, -1)
    header = f"{n}\n{d}\n0.01\n1\n" + "0.5\n" * (kind == "svm")
    rows = "\n".join(" ".join(f"{number:.6e}" for number in row) for row in x)
    return (header + rows + "\n" + "\n".join(map(str, y)) + "\n").encode()


def flipped(rng, data):
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 9)):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def truncated(rng, data):
    return data[: rng.randrange(len(data))]


def doubled(rng, data):
    start, stop = sorted(rng.sample(range(len(data)), 2))
    return data[:stop] + data[start:stop] * rng.randrange(1, 4) + data[stop:]


def removed(rng, data):
    start, stop = sorted(rng.sample(range(len(data)), 2))
    return data[:start] + data[stop:]


def spliced(rng, data):
    other = example(rng.choice([*PROGRAMS]), rng, n=rng.randrange(1, 40), d=rng.randrange(1, 9))
    return data[: rng.randrange(len(data))] + other[rng.randrange(len(other)) :]


def replaced(rng, data):
    """A number somewhere, and often in the header, is something else."""
    tokens = list(re.finditer(rb"\S+", data))
    token = tokens[rng.randrange(5 if rng.random() < 0.5 else len(tokens))]
    return data[: token.start()] + rng.choice(JUNK).encode() + data[token.end() :]


def stuffed(rng, data):
    place = rng.randrange(len(data))
    kind = rng.randrange(3)
    junk = (rng.randbytes(rng.randrange(1, 200)), b"7" * 10 ** rng.randrange(1, 6), b" \n" * 5000)
    return data[:place] + junk[kind] + data[place:]


def headed(rng, data):
    """Another header that is legal, however extreme."""
    tokens = data.split(maxsplit=4)
    values = [rng.choice(LEGAL[name]).encode() for name in ("lambda", "eps")]
    return b" ".join([*tokens[:2], *values, *tokens[4:]])


def scaled(rng, data):
    """Other lengths of rows, zeros, one class: data that solvers do not like."""
    kind = rng.randrange(4)
    if kind == 0:
        return data.replace(b"e-01", b"e+%02d" % rng.randrange(1, 300))
    if kind == 1:
        return data.replace(b"e-01", b"e-300")
    if kind == 2:
        return data.replace(b"\n-1", b"\n1")
    return re.sub(rb"-?\d\.\d+e-0\d", b"0.25", data)


DAMAGES = (flipped, truncated, doubled, removed, spliced, replaced, stuffed, headed, scaled)


def damaged(rng, data, most=3):
    for _ in range(rng.randrange(1, most + 1)):
        if len(data.split()) < 6:  # there is little left to damage
            break
        data = rng.choice(DAMAGES)(rng, data)
    return data


def plain_reading(data, names):
    """Header, features and labels by the shortest program there is, or None."""
    tokens = data.removeprefix(b"\xef\xbb\xbf").split()
    if any(len(token) > LONGEST or set(token) - set(b"0123456789+-.eE") for token in tokens):
        return None
    try:
        values = np.array([float(token) for token in tokens])
    except ValueError:
        return None
    k = len(names)
    if not np.isfinite(values).all() or len(values) < k:
        return None
    n, d = map(float, values[:2])  # whose product may be infinite
    if len(values) != k + n * d + n or (abs(values[len(values) - int(n) :]) != 1).any():
        return None
    return values[:k], values[k : k + int(n * d)], values[k + int(n * d) :]


def read(data, names):
    header, pieces = read_header(io.BytesIO(data), names)
    return header, *read_rows(header, pieces)


def outcome(action):
    """What an action returns, or the sentence that it raises; in time."""
    start = time.process_time()
    try:
        found = action()
    except (MatrixFileError, GuaranteeError) as refusal:
        found = str(refusal)
        assert found.isprintable()
        assert len(found) < 400
    assert time.process_time() - start < SECONDS, "too slow"
    return found


def survey(kind, rng, count):
    """Read damaged files, and compare; returns how many of them were whole files."""
    names = PROGRAMS[kind].numbers
    whole = [example(kind, rng), example(kind, rng, n=40, d=2), example(kind, rng, n=3, d=60)]
    whole_files = 0
    for index in range(count):
        data = damaged(rng, rng.choice(whole))
        found = outcome(lambda data=data: read(data, names))
        expected = plain_reading(data, names)
        case = f"seed {SEED}, {kind} {index}"
        if isinstance(found, str):
            in_range = re.search(r"\((n|d|lambda|eps|h)\): (\w+)=", found)
            assert expected is None or in_range, f"{case}: {found}"
        else:
            whole_files += 1
            header, x, y = found
            assert expected is not None, case
            assert x.shape == (header.n, header.d), case
            assert np.array_equal(x.ravel(), expected[1]), case
            assert np.array_equal(y, expected[2]), case
    return whole_files


@pytest.mark.parametrize("kind", PROGRAMS)
def test_the_reader(kind):
    whole_files = survey(kind, random.Random(f"{SEED} {kind}"), READ // 2)
    assert READ // 50 < whole_files < READ // 3  # both ways out were taken


def test_a_careless_reader_is_caught(monkeypatch):
    monkeypatch.setattr(matrix_text.Header, "takes", lambda header, numbers, count: True)
    with pytest.raises((AssertionError, ValueError)):  # labels beyond -1 and 1, or too many
        survey("lr", random.Random(0), 500)


def extreme(kind, rng, whole):
    """A file that is usually legal, with numbers that solvers do not like."""
    data = rng.choice(whole)
    for damage, chance in ((headed, 0.8), (scaled, 0.5), (replaced, 0.1), (flipped, 0.1)):
        if rng.random() < chance:
            data = damage(rng, data)
    if kind == "svm":
        tokens = data.split(maxsplit=5)
        data = b" ".join([*tokens[:4], rng.choice(LEGAL["h"]).encode(), *tokens[5:]])
    return data


def computed(kind, rng, data):
    """The lines, without objective perturbation in half of all cases: it has a condition."""
    lines = rng.choice([ALL, (NON_PRIVATE, OUTPUT)])
    return run_program(PROGRAMS[kind], io.BytesIO(data), SystemRandomness(), lines)


@pytest.mark.parametrize("kind", PROGRAMS)
def test_the_programs(kind):
    """Whatever is read is computed with, in time, and private lines say that all is well."""
    rng = random.Random(f"{SEED} {kind} computed")
    whole = [example(kind, rng), example(kind, rng, n=30, d=2)]
    lines = []
    for index in range(COMPUTED // 2):
        data = extreme(kind, rng, whole)
        try:
            found = outcome(lambda data=data: computed(kind, rng, data))
        except Exception as error:
            error.add_note(f"seed {SEED}, {kind} {index}: {data[:60]!r}")
            raise
        if not isinstance(found, str):
            lines += found.lines
    private = [line for line in lines if line.wanted.private]
    assert len(private) > COMPUTED // 4
    assert {line.wanted for line in private} == {OUTPUT, OBJECTIVE}
    assert {line.returned for line in private} == {0}
    assert all(np.isfinite(line.coef).all() for line in private)


def test_little_memory_is_needed():
    """Tracing every allocation is slow, so this is a part of what is read and computed above."""
    rng = random.Random(f"{SEED} memory")
    tracemalloc.start()
    try:
        for kind in PROGRAMS:
            whole = [example(kind, rng)]
            for _ in range(150):
                data = damaged(rng, whole[0])
                outcome(lambda data=data, kind=kind: read(data, PROGRAMS[kind].numbers))
            for _ in range(15):
                data = extreme(kind, rng, whole)
                outcome(lambda data=data, kind=kind: computed(kind, rng, data))
        assert tracemalloc.get_traced_memory()[1] < MEMORY / 2
    finally:
        tracemalloc.stop()
