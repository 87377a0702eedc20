"""Tokens of R's formula dialect, and R's spelling of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privatelr.errors import FormulaError
from privatelr.formula import Token, closing_index, spell, tokenize

DEPARSED = [  # (as written, as R's deparse spells it)
    ("y~x+z", "y ~ x + z"),
    ("I( (x-1) / 2 )", "I((x - 1)/2)"),
    ("log(Sepal.Width)", "log(Sepal.Width)"),
    ("I(Petal.Length ^ 2)", "I(Petal.Length^2)"),
    ("a :b* c", "a:b * c"),
    ("-x", "-x"),
    ("x*-1", "x * -1"),
    ("c(1,-2)", "c(1, -2)"),
    ("! (a==b)", "!(a == b)"),
    ("a%in%c('u')", "a %in% c('u')"),
    ("x %/% 2 %% 3", "x %/% 2 %% 3"),
    ("a&&b||c", "a && b || c"),
    ("factor(g,levels=c('a','b'))", "factor(g, levels = c('a', 'b'))"),
    ("`a b`+`c`", "`a b` + c"),
    ("1.5e-3*x", "1.5e-3 * x"),
    ("x^-1", "x^-1"),
    ("'it''s'", "'it' 's'"),
]


@pytest.mark.parametrize(("written", "deparsed"), DEPARSED)
def test_spelling_is_that_of_r(written, deparsed):
    assert spell(tokenize(written)) == deparsed


@pytest.mark.parametrize("written", [written for written, _ in DEPARSED])
def test_spelling_is_read_back_as_the_same_tokens(written):
    spelled = spell(tokenize(written))
    assert spell(tokenize(spelled)) == spelled


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("Sepal.Length", ["name"]),
        (".hidden", ["name"]),
        ("._x2", ["name"]),
        ("größe", ["name"]),
        (".5", ["number"]),
        ("1e5", ["number"]),
        ("10L", ["number"]),
        ("`x + y`", ["quoted"]),
        ("'x + `y`'", ["text"]),
        ('"a\\"b"', ["text"]),
        ("x**2", ["name", "operator", "number"]),
        ("x%in%y", ["name", "operator", "name"]),
        ("<=", ["operator"]),
        ("", []),
    ],
)
def test_kinds_of_tokens(text, kinds):
    assert [token.kind for token in tokenize(text)] == kinds


def test_backticks_are_not_part_of_a_name():
    assert tokenize("`a b`") == [Token("quoted", "a b")]


@pytest.mark.parametrize(
    ("text", "stray", "place"), [("y ~ x ; z", ";", 7), ("y ~ x$z", "$", 6), ("y ~ `x", "`", 5)]
)
def test_a_stray_character_is_named_with_its_place(text, stray, place):
    with pytest.raises(FormulaError) as caught:
        tokenize(text)
    assert repr(stray) in str(caught.value)
    assert f"character {place}" in str(caught.value)


def test_brackets_close_at_their_own_level():
    tokens = tokenize("f(g[1], (h(2))) + (x)")
    assert closing_index(tokens, 1) == len(tokens) - 5
    with pytest.raises(FormulaError, match="bracket"):
        closing_index(tokenize("(x + (y)"), 0)


@given(st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="`"), min_size=1))
def test_any_name_without_a_backtick_survives_quoting(name):
    quoted = [Token("quoted", name)]
    assert [token.text for token in tokenize(spell(quoted))] == [name]


@pytest.mark.parametrize("word", ["in", "TRUE", "True", "and", "or", "not", "FALSE"])
def test_a_column_with_a_reserved_name_keeps_its_backticks(word):
    # without them the printed formula could not be read back
    assert spell([Token("quoted", word)]) == f"`{word}`"
