"""A page says the same words in text, HTML and Markdown, and none of them is markup."""

import html
import re

import pytest

from privatelr.page_model import (
    Alarm,
    Bullets,
    Code,
    FactList,
    Heading,
    Indented,
    Listing,
    NotPrivate,
    Table,
    as_document,
    as_html,
    as_markdown,
    as_text,
)

PAGE = [
    Heading("a title <b>"),
    Code("y ~ `x` | z"),
    "",
    FactList([("Label", "a fact, n = 3 & more"), ("Other", "*none*")]),
    Table(("first", "second"), ("one", "two"), (("1.0", "2.0"), ("3.0", "4.0"))),
    "a sentence of the page",
    Indented("and another one", rest="  "),
    Alarm("listen"),
    Bullets(("this [a]", "that")),
    Listing(("who", "what"), (("... 3 before",), ("me", "<script>"))),
    NotPrivate(("counts", Table(("rows",), ("all",), (("7",),)))),
]


def plain(markdown):
    text = re.sub(r"(?m)^(\||> |- |#+ |`{3}$).*?", lambda mark: mark[0].strip("|>-#` "), markdown)
    return re.sub(r"\\(.)", r"\1", re.sub(r"(?<!\\)[|*]|---", " ", text))


def words(text):
    return re.findall(r"[^\s-]+", text)


def check_words(shown):
    text = as_text(PAGE).replace("- this", "this").replace("- that", "that")
    assert words(shown) == words(text)


@pytest.mark.parametrize("render", [as_html, as_document])
def test_html_has_the_words_of_the_text(render):
    body = re.sub(r"(?s)<head>.*</head>", "", render(PAGE))
    check_words(html.unescape(re.sub(r"<[^<>]*>", " ", body)))


def test_markdown_has_the_words_of_the_text():
    code = Code("y ~ x")
    assert "| first | 1.0 | 2.0 |" in as_markdown(PAGE)
    assert plain(as_markdown([*PAGE[:1], code])).split() == ["a", "title", "<b>", "y", "~", "x"]
    assert re.search(r"(?<!\\)<(?!/)", as_markdown(PAGE)) is None


def test_text_keeps_to_its_columns():
    long = "much to say, x = 1 " * 12
    table = Listing(("who", "what"), [(long, "x")])
    page = [*PAGE, long, FactList([("Label", long)]), Bullets([long]), table]
    lines = as_text(page).splitlines()
    assert max(map(len, lines)) <= 79
    assert not any(re.search(r"(^| )=$|^\s*= ", line) for line in lines)


def test_what_is_not_private_stands_below_a_rule():
    above, below = as_text(PAGE).split(" not private -----")
    assert "counts" not in above
    assert words(below) == ["counts", "all", "rows", "7"]
    for shown in (as_html(PAGE), as_document(PAGE), as_markdown(PAGE)):
        assert shown.index("not private") < shown.index("counts")


def test_a_long_name_wraps_in_html_and_others_look_as_before():
    def first_cell(name):
        shown = as_html([Table((name,), ("n",), (("1",),))])
        return re.search(f"<th style='([^']*)'>{name}</th>", shown)[1]

    ordinary = first_cell("leaning_republican_or_independent_voter")
    assert "wrap" not in ordinary
    assert "width" not in ordinary
    assert first_cell("a_long_name_" * 10) == (
        f"{ordinary};overflow-wrap:anywhere;min-width:12em;max-width:20em"
    )
    assert first_cell("words " * 20) == ordinary  # a browser breaks them already
