"""Every word of a page in HTML can be read on a light and on a dark ground."""

import re

from colours import contrast, shares

from privatelr import page_model
from privatelr.page_model import Alarm, Code, FactList, Heading, Listing, NotPrivate, Table

READABLE = 4.5
"""Contrast of text by WCAG 2, level AA."""
VISIBLE = 3.0
"""Contrast of lines that say something, by the same."""
NOTEBOOKS = {
    "JupyterLab": ("#ffffff", "#212121"),
    "JupyterLab, dark": ("#111111", "#e0e0e0"),
    "VS Code": ("#ffffff", "#3b3b3b"),
    "VS Code, dark": ("#1f1f1f", "#cccccc"),
}
"""The ground of an output, and its text."""
PAGE = [
    Heading("title"),
    Alarm("listen"),
    Code("y ~ x"),
    FactList([("label", "fact")]),
    Listing(("who",), [("me",)]),
    Table(("one",), ("two",), (("3",),)),
    NotPrivate(["counts", Table(("four",), ("five",), (("6",),))]),
]
MIX = re.compile(r"color-mix\(in srgb, *(#[0-9a-f]{6}) (\d+)%, *currentcolor\)")


def schemes_of(document):
    """Ground and text of a document where the reader asks for light, and for dark."""
    style = re.search(r"(?s)<style>(.*)</style>", document)[1]
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    assert "color-scheme: light dark" in light
    return {
        name: tuple(
            re.search(rf"body \{{[^}}]*(?<![-\w]){what}: (#[0-9a-f]{{6}})", part)[1]
            for what in ("background", "color")
        )
        for name, part in {"document": light, "document, dark": dark}.items()
    }


def declared(shown, what):
    """The values of a property; of several in one rule the last, which new browsers take."""
    rules = re.findall(r"""style=(["'])(.*?)\1""", shown)
    found = (re.findall(rf"(?<![-\w]){what}: ?([^;]+)", rule) for _, rule in rules)
    return [values[-1] for values in found if values]


def seen(value, text):
    """A colour as it is mixed with the colour of the text around it."""
    mixed = MIX.fullmatch(value)
    if mixed is None:
        return shares(value)
    share = int(mixed[2]) / 100
    return share * shares(mixed[1]) + (1 - share) * shares(text)


def faults(shown, schemes):
    """Colours of words and of borders that cannot be read in one of these schemes."""
    words = [("color", value, READABLE) for value in declared(shown, "color")]
    lines = [
        ("border", value[value.index("#") :] if "mix" not in value else MIX.search(value)[0], least)
        for side in ("border", "border-top")
        for value, least in ((value, VISIBLE) for value in declared(shown, side))
    ]
    found = {
        name: [
            (what, value)
            for what, value, least in (*words, *lines)
            if contrast(seen(value, text), shares(ground)) < least
        ]
        for name, (ground, text) in schemes.items()
    }
    return {name: what for name, what in found.items() if what}


def test_words_and_lines_can_be_read_in_notebooks():
    shown = page_model.as_html(PAGE)
    assert len(declared(shown, "color")) >= 2
    assert faults(shown, NOTEBOOKS) == {}


def test_words_and_lines_can_be_read_in_documents():
    document = page_model.as_document(PAGE)
    schemes = schemes_of(document)
    assert faults(document, schemes) == {}
    for ground, text in schemes.values():
        assert contrast(shares(ground), shares(text)) >= 7  # level AAA, for what is read at length
