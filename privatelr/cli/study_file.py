"""A schema file as a whole run: what is public about the table, and the options of a command.

A key of the file is the name of an option without its dashes, with ``_`` for ``-``, so that the
table of options is the table of keys as well. What the command line says prevails.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from privatelr.cli.option_readers import Parser
from privatelr.cli.options import given, names_of
from privatelr.cli.outcomes import InputError
from privatelr.cli.tables import is_file
from privatelr.datasets import load_study
from privatelr.errors import SchemaError, listed, or_meant, show
from privatelr.sources import declare_schema

_ONE_CALL = {
    *("data", "column", "plan", "schema", "seed", "plot", "out", "save"),
    *("force", "json", "quiet"),
}
"""These are about one call. A seed is among them, since a study repeats no noise."""
_PRICE = {"eps", "rho", "delta"}
_PRICED_APART = {"bounds", "levels"}
"""The price in a file is that of a fit. These commands ask for one of their own."""
_NEEDED = {"formula": "FORMULA", "n": "--n"}
"""Arguments that only a schema file makes optional."""


def study_keys() -> frozenset[str]:
    """All keys that a schema file may have: options of the commands that take one."""
    return frozenset(map(_key, names_of("--schema"))) - _ONE_CALL


def complete(chosen: argparse.Namespace) -> None:
    """Give options that the command line leaves out the values of the schema file.

    The declarations of the file become ``chosen.declared``, and the rest ``chosen.study``.

    Raises
    ------
    ArgumentError, SchemaError
        If the file cannot be read, or has a key that no command knows.
    InputError
        If a value is not what its option takes.
    """
    chosen.declared, chosen.study = {}, {}
    if chosen.command in ("check", "fit") and len(chosen.data) > 1 and not is_file(chosen.data[-1]):
        *chosen.data, chosen.formula = chosen.data  # files come first, and may be many
    if getattr(chosen, "schema", None) is not None:
        chosen.declared, chosen.study = load_study(Path(chosen.schema), study_keys())
        _fill(chosen, chosen.study)
    parser: Parser = chosen.parser
    for name, option in _NEEDED.items():
        if getattr(chosen, name, "") is None:
            key = f"or the key {name} in the file of --schema"
            parser.error(f"the following arguments are required: {option}, {key}")


def read_declarations(
    chosen: argparse.Namespace, names: Sequence[str] | None = None
) -> dict[str, Any]:
    """Declarations as keywords for `dplr`, from the schema file and from options, which prevail.

    Raises
    ------
    SchemaError
        If `names` of columns are given, and another column is declared.
    """
    schema = chosen.declared
    declared = {**schema, **{name: {**schema.get(name, {})} for name in ("bounds", "levels")}}
    for here, there in (("bounds", "levels"), ("levels", "bounds")):
        for name, value in getattr(chosen, here):
            declared[there].pop(name, None)
            declared[here][name] = value
    declared |= given(chosen, "row_norm", "intercept_scale")
    declare_schema(**declared)
    if names is None:
        return declared
    known = frozenset(names)
    for argument in ("bounds", "levels"):
        for name in declared[argument]:
            if name not in known:
                raise SchemaError(
                    f"{argument} names {name!r}, which is not a column of the table; it has "
                    f"{listed(names)}{or_meant(name, names)}"
                )
    return declared


def _fill(chosen: argparse.Namespace, run: Mapping[str, Any]) -> None:
    parser: Parser = chosen.parser
    actions = {_key(_name(action)): action for action in parser._actions}
    left_out = _PRICE if chosen.command in _PRICED_APART else set()
    if getattr(chosen, "rho", None) is not None:
        left_out = left_out | {"delta"}  # it goes with epsilon
    given = {a.dest for a in actions.values() if getattr(chosen, a.dest, None) is not a.default}
    rivals = _rivals(parser)
    for key in run:
        both = sorted(rivals.get(key, set()) & run.keys())
        if both:
            raise _wrong(chosen, key, f"it and {both[0]} exclude each other")
    for key, value in run.items():
        action = actions.get(key)  # None for an option of other commands
        if action is None or key in left_out:
            continue
        if not {action.dest, *(actions[other].dest for other in rivals.get(key, ()))} & given:
            setattr(chosen, action.dest, _value(chosen, parser, key, action, value))


def _rivals(parser: Parser) -> dict[str, set[str]]:
    """For each key the keys that it excludes."""
    groups = [
        {_key(_name(action)) for action in group._group_actions}
        for group in parser._mutually_exclusive_groups
    ]
    return {key: group - {key} for group in groups for key in group}


def _value(
    chosen: argparse.Namespace, parser: Parser, key: str, action: argparse.Action, value: Any
) -> Any:
    """The value of an option, read from its text in the file as from that on the command line."""
    is_switch = action.nargs == 0
    if is_switch != isinstance(value, bool) and not (key == "do_scale" and value is False):
        takes = "true or false" if is_switch else "a value such as that of its option"
        raise _wrong(chosen, key, f"it takes {takes}")
    if is_switch:
        return value
    texts = ["no"] if value is False else [*_texts(value)]
    if not texts:
        raise _wrong(chosen, key, "it takes a text, a number, or a table of numbers by names")
    repeated = isinstance(action, argparse._AppendAction)
    if isinstance(value, Mapping) and not repeated:
        texts = [",".join(texts)]
    try:
        found = [parser._get_value(action, text) for text in texts]
        for one in found:
            parser._check_value(action, one)
    except argparse.ArgumentError as refusal:
        raise _wrong(chosen, key, refusal.message) from None
    return found if repeated else found[0]


def _texts(value: Any) -> Iterator[str]:
    """The texts that say the same on the command line; none for what cannot be said there."""
    if isinstance(value, Mapping):
        each = {name: one if isinstance(one, list) else [one] for name, one in value.items()}
        if all(isinstance(x, int | float) for one in each.values() for x in one):
            yield from (f"{name}={':'.join(map(repr, one))}" for name, one in each.items())
    elif isinstance(value, str):
        yield value
    elif isinstance(value, int | float):
        yield repr(value)


def _wrong(chosen: argparse.Namespace, key: str, what: str) -> InputError:
    return InputError(f"schema {show(str(chosen.schema))}: {key}: {what.rstrip('.')}.")


def _name(action: argparse.Action) -> str:
    return next((name for name in action.option_strings if name.startswith("--")), action.dest)


def _key(option: str) -> str:
    return option.lstrip("-").replace("-", "_")
