"""The reader of the published format: the numbers to the last bit, and the place of an error."""

import io
import itertools
import math
import random
import re
import struct
import tracemalloc
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privatelr.selection import matrix_text
from privatelr.selection.matrix_text import LONGEST, MatrixFileError, read_header, read_rows

LR, SVM = ("n", "d", "lambda", "eps"), ("n", "d", "lambda", "eps", "h")
SMALL = b"2 2 0.1 1\n0.1 0.2\n0.3 0.4\n-1\n1\n"


def read(data, names=LR):
    header, pieces = read_header(io.BytesIO(data), names)
    return header, *read_rows(header, pieces)


def refusal(data, names=LR):
    with pytest.raises(MatrixFileError) as caught:
        read(data, names)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.isprintable()
    assert len(sentence) < 300
    return sentence


def test_a_file():
    header, x, y = read(b"2 3 0.25 1e0 .5\n1 2 3\n4 5 6\n-1 1\n", SVM)
    assert (header.n, header.d, header.lambda_, header.epsilon, header.h) == (2, 3, 0.25, 1.0, 0.5)
    np.testing.assert_array_equal(x, [[1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(y, [-1, 1])


@pytest.mark.parametrize(
    "data",
    [
        SMALL.replace(b"\n", b"\r\n"),
        SMALL.replace(b"\n", b"\t \v\f"),
        SMALL.replace(b"\n", b" ").strip(),
        b"\n\n  " + SMALL.replace(b" ", b"\n"),
        SMALL.replace(b"2 2", b"2.0 0.2e+1"),
        SMALL.replace(b"-1\n1", b"-1.000e0 +1"),
        b"\xef\xbb\xbf" + SMALL,
    ],
    ids=["crlf", "tabs", "one line", "one a line", "2.0", "labels", "utf-8 mark"],
)
def test_what_is_the_same_file(data):
    for found, expected in zip(read(data), read(SMALL), strict=True):
        assert np.array_equal(found, expected) if isinstance(found, np.ndarray) else True
    assert read(data)[0] == read(SMALL)[0]


def doubles(rng, count):
    """Texts of doubles of all sizes: short, long, and halfway between two neighbours."""
    while count:
        value = struct.unpack("d", rng.randbytes(8))[0]
        if not math.isfinite(value) or abs(value) > 1e307:
            continue
        count -= 1
        kind = rng.randrange(5)
        if kind < 2:
            yield (f"{value:.{rng.randrange(30)}e}", repr(value))[kind]
        elif kind == 2:
            yield f"{rng.gauss(0, 1):.{rng.randrange(20)}f}"
        else:
            with localcontext() as context:
                context.prec = 1100
                middle = (Decimal(value) + Decimal(math.nextafter(value, math.inf))) / 2
                tiny = Decimal(abs(value)) / 10**60 if kind == 4 else 0
                yield str(middle + tiny)


def test_numbers_are_the_nearest_doubles():
    texts = [*doubles(random.Random(0), 5000), "5e-324", "2.4703282292062327e-324", "-0", "1e-999"]
    whole = len(texts) // 4 * 4
    data = f"{whole // 4} 4 1 1 {' '.join(texts[:whole])} {'1 ' * (whole // 4)}".encode()
    x = read(data)[1]
    expected = np.array([float(text) for text in texts[:whole]])
    assert x.tobytes() == expected.tobytes()  # -0.0 too


def is_a_number(token):
    """By Python's own reading, without what it takes beyond the published format."""
    try:
        return math.isfinite(float(token)) and set(token) <= set("0123456789+-.eE")
    except ValueError:
        return False


def test_what_a_number_is():
    tokens = ("".join(c) for k in (1, 2, 3) for c in itertools.product("15+-.eE_x,", repeat=k))
    for token in tokens:
        data = b"1 1 1 1 " + token.encode() + b" 1"
        if is_a_number(token):
            assert read(data)[1][0, 0] == float(token)
        else:
            assert f"line 1, number 5 (row 1, column 1): '{token}' is not a number" in refusal(data)


@given(st.text("0123456789+-.eE", min_size=1, max_size=12))
def test_longer_numbers(token):
    data = f"1 1 1 1 {token} 1".encode()
    if is_a_number(token):
        assert read(data)[1][0, 0] == float(token)
    else:
        assert "number 5 (row 1, column 1)" in refusal(data)


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (b"nan", "'nan' is not a number."),
        (b"-inf", "'-inf' is not a number."),
        (b"0x1p3", "'0x1p3' is not a number."),
        (b"1_000", "'1_000' is not a number."),
        (b"0,5", "'0,5' is not a number; a decimal point is '.', and white space"),
        (b"1e999", "'1e999' is too large for a double."),
        (b"-" + b"9" * 400, "'-99999999999999999999999...' is too large for a double."),
        (b"1" * (LONGEST + 1), f"goes on for more than {LONGEST} characters"),
        (b"0.\x00", r"'0.\x00' is not a number."),
        (b"\x1b[31m", r"'\x1b[31m' is not a number."),
        (b"\xc2\xa01", r"'\xc2\xa01' is not a number."),
        ("٣".encode(), r"'\xd9\xa3' is not a number."),
    ],
)
def test_tokens_at_fault(token, words):
    assert refusal(SMALL.replace(b"0.3", token)).startswith("line 3, number 7 (row 2, column 1): ")
    assert words in refusal(SMALL.replace(b"0.3", token))


def test_a_long_number_within_the_limit():
    written_out = format(Decimal(2**-1074), "f").encode()
    assert len(written_out) > 1000
    assert read(SMALL.replace(b"0.3", written_out))[1][1, 0] == 2**-1074


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("-2 2 .1 1", "line 1, number 1 (n): n=-2: n takes a whole number from 1 to"),
        ("0 2 .1 1", "n=0: n takes"),
        ("2.5 2 .1 1", "n=2.5: n takes"),
        ("1e18 2 .1 1", "n=1e18: n takes a whole number from 1 to 1000000000000."),
        ("1e999 2 .1 1", "number 1 (n): '1e999' is too large for a double."),
        ("2\n1e5 .1 1", "line 2, number 2 (d): d=1e5: d takes a whole number from 1 to 10000."),
        ("2 x .1 1", "number 2 (d): 'x' is not a number."),
        ("2 2\n\n0 1", "line 3, number 3 (lambda): lambda=0: lambda takes a number from 1e-15 to"),
        ("2 2 1e13 1", "lambda=1e13: lambda takes"),
        ("2 2 .1 1e-10", "number 4 (eps): eps=1e-10: eps takes a number from 1e-09 to 10000."),
        ("2 2 .1 -1", "eps=-1: eps takes"),
        ("2 2 .1 1 0.7", "number 5 (h): h=0.7: h takes a number from 0.0001 ("),
    ],
)
def test_headers_at_fault(header, words):
    names = SVM if "0.7" in header else LR
    assert words in refusal(f"{header}\n1 2 3 4 1 1\n".encode(), names)


@pytest.mark.parametrize("data", [b"", b"  \n", b"2", b"2 2\n", b"2 2 0.1"])
def test_files_that_end_in_the_header(data):
    found = len(data.split())
    assert f"ends before number {found + 1} ({LR[found]}); it takes n d lambda" in refusal(data)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (SMALL[:-3], "line 4: the file ends after number 9, before label of row 2; n=2 and d=2"),
        (SMALL[:18], "line 3: the file ends after number 6, before row 2, column 1; n=2 and d=2"),
        (SMALL + b"7", "line 6, number 11 (after the last label): this is one too many; n=2 and"),
        (SMALL + SMALL, "line 6, number 11 (after the last label): this is one too many"),
        (SMALL.replace(b"-1\n", b"0\n"), "line 4, number 9 (label of row 1): '0' is no label; af"),
        (SMALL.replace(b"\n1\n", b"\n1.5\n"), "line 5, number 10 (label of row 2): '1.5' is no la"),
        (b"\x1f\x8b\x08" + SMALL, "compressed by gzip; take its content, as in: gunzip -c"),
        (SMALL.decode().encode("utf-16"), "it is text in UTF-16; save it as plain text"),
        (bytes(range(256)), r"line 1, number 1 (n): '\x00\x01\x02\x03\x04\x05...' is not"),
    ],
    ids=["no label", "short", "long", "twice", "0", "1.5", "gzip", "utf-16", "junk"],
)
def test_files_at_fault(data, words):
    assert words in refusal(data)


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 64])
def test_where_a_file_is_cut_does_not_matter(piece, monkeypatch):
    rng = random.Random(piece)
    body = " \n".join(f"{rng.random():.{rng.randrange(9)}f}" for _ in range(60))
    good = f"20 3 .1\n 1 {body}\n{'-1 1 ' * 10}".encode()
    bad = [good[:-3], good + b"1", good.replace(b"0.5", b"0,5"), good[:200] + b"\0" + good[200:]]
    whole, sentences = read(good), [refusal(data) for data in bad]
    monkeypatch.setattr(matrix_text, "PIECE", piece)
    for found, expected in zip(read(good), whole, strict=True):
        assert np.array_equal(found, expected)
    assert [refusal(data) for data in bad] == sentences
    monkeypatch.setattr(matrix_text, "LONGEST", 100)
    assert "line 2, number 5 (row 1" in refusal(b"1 1 1 1\n" + b"1" * 200)


WHITE = st.text(" \n\t\r\v\f", min_size=1, max_size=4)


@given(st.data())
def test_the_place_of_an_error(data):
    n, d = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    names = data.draw(st.sampled_from([LR, SVM]))
    header = [str(n), str(d), "0.1", "1", "0.5"][: len(names)]
    tokens = [*header, *(["0.25"] * (n * d)), *(["1"] * n)]
    index = data.draw(st.integers(0, len(tokens) - 1))
    tokens[index] = data.draw(st.sampled_from(["x", "nan", "1e400", "--1"]))
    text = "".join(data.draw(WHITE) + token for token in tokens)
    line = text[: text.index(tokens[index])].count("\n") + 1
    features = index - len(names)
    if features < 0:
        what = names[index]
    elif features < n * d:
        what = f"row {features // d + 1}, column {features % d + 1}"
    else:
        what = f"label of row {features - n * d + 1}"
    sentence = refusal(text.encode(), names)
    assert sentence.startswith(f"line {line}, number {index + 1} ({what}): ")


class Endless(io.RawIOBase):
    """A header, and then the same bytes for ever."""

    def __init__(self, start, again):
        self.start, self.again, self.given = start, again, 0

    def read(self, size=-1):
        start, self.start = self.start, b""
        self.given += size
        assert self.given < 2**27, "it goes on reading"
        return (start + self.again * (size // len(self.again) + 1))[:size]


@pytest.mark.parametrize(
    ("start", "again", "words"),
    [
        (b"2 2 1 1 ", b"1", "goes on for more than"),
        (b"", b"1", "goes on for more than"),
        (b"2 2 1 1 ", b"1 ", "one too many"),
        (b"", b"\0", "number 1 (n)"),
        (b"2 2 1 1\n", b"\xff", "line 2, number 5"),
    ],
)
def test_streams_without_an_end(start, again, words):
    with pytest.raises(MatrixFileError, match=re.escape(words)):
        read_rows(*read_header(Endless(start, again), LR))


def test_nothing_is_reserved_on_the_word_of_a_header():
    huge = b"1e12 10000 0.1 1\n" + b"0.5 " * 1000
    tracemalloc.start()
    try:
        sentence = refusal(huge)
        assert "ends after number 1004, before row 1, column 1001" in sentence
        assert "promise 10001000000000004 numbers in all" in sentence
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def test_memory_stays_near_the_numbers():
    n, d = 40_000, 10
    data = f"{n} {d} 1 1\n".encode() + b"0.125 " * (n * d) + b"1 " * n
    stream = io.BytesIO(data)
    tracemalloc.start()
    try:
        header, x, _ = read_header(stream, LR)[0], *read_rows(*rewound(stream))
        assert x.shape == (header.n, header.d)
        # pieces of four megabytes, their numbers, and the numbers themselves while they grow
        assert tracemalloc.get_traced_memory()[1] < 5 * 2**22 + 3 * x.nbytes
    finally:
        tracemalloc.stop()


def rewound(stream):
    stream.seek(0)
    return read_header(stream, LR)
