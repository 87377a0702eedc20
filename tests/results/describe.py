"""The published schema of release files, worked out from the types of their entries.

    python -m tests.results.describe     writes privatelr/results/release.schema.json

Run after a change of the entries; a test compares.
"""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import msgspec

from privatelr.numerics import LOSSES
from privatelr.privacy.guarantees import KINDS as GUARANTEES
from privatelr.results.release_files.design_file import FormulaEntry, MatrixEntry
from privatelr.results.release_files.file_entries import VERSION, Document, ReceiptEntry
from privatelr.results.release_files.release_file import kinds

_ATTRIBUTE = re.compile(r"^(\w+(?:, \w+)*)\n    (.*?)(?=\n\w|\Z)", re.MULTILINE | re.DOTALL)
_GUARANTEES = ("guarantee", "promise", "target", "roc_target", "fit_guarantee", "choice_guarantee")


def document_schema() -> dict[str, Any]:
    """JSON Schema of the format."""
    calls = [call for kind in kinds().values() for call in get_args(kind.call) or (kind.call,)]
    numbers = [kind.released for kind in kinds().values()]
    whole = Document[Any, Any]
    types = (*calls, *numbers, FormulaEntry, MatrixEntry, ReceiptEntry, whole)
    (*parts, reference), defined = msgspec.json.schema_components(types)
    document = defined.pop(reference["$ref"].rpartition("/")[2])
    for entry in (document, *defined.values()):
        _describe(entry)
    properties = document["properties"]
    properties["call"]["oneOf"] = parts[: len(calls)]
    properties["released"]["anyOf"] = parts[len(calls) : len(calls) + len(numbers)]
    for entry in (document, *defined.values()):
        for name, item in entry["properties"].items():
            if name == "loss":
                entry["properties"][name] = {"$ref": "#/$defs/loss"}
            if name in _GUARANTEES:
                null = {"anyOf": [{"$ref": "#/$defs/guarantee"}, {"type": "null"}]}
                optional = "anyOf" in item
                told = null if optional else {"$ref": "#/$defs/guarantee"}
                entry["properties"][name] = {
                    **({"description": item["description"]} if "description" in item else {}),
                    **told,
                }
    properties["ledger"] = {
        "description": properties["ledger"]["description"],
        "anyOf": [{"$ref": "#/$defs/charge"}, {"type": "null"}],
    }
    properties["written_by"]["required"] = ["privatelr", "python"]
    others = {"loss": _losses(), "guarantee": _guarantees(), "charge": _charge()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:privatelr:release:{VERSION}",
        **document,
        "title": "privatelr release",
        "$defs": {**defined, **others},
    }


def _losses() -> dict[str, Any]:
    """Names of losses, and objects for the families."""
    plain = [name for name, loss in LOSSES.items() if not loss.parameters]
    families = {name: loss.parameters for name, loss in LOSSES.items() if loss.parameters}
    families["worst-margins"] = {"density": 0.5}
    numbers = {name: {"type": "number"} for loss in families.values() for name in loss}
    family = _closed({"name": {"enum": list(families)}, **numbers})
    return {"oneOf": [{"enum": plain}, {**family, "required": ["name"]}]}


def _guarantees() -> dict[str, Any]:
    """One object for each kind of guarantee."""
    kinds = []
    for tag, kind in GUARANTEES.items():
        names = [field.name for field in fields(kind) if field.name != "neighbours"]
        values = {name: {"type": "string" if name == "reason" else "number"} for name in names}
        about = {"enum": ["REPLACE_ONE", "REPLACE_PERSON"]}
        kinds.append(_closed({"kind": {"enum": [tag]}, **values, "neighbours": about}))
    return {"oneOf": kinds}


def _charge() -> dict[str, Any]:
    """The charge to a ledger, as a ledger writes it, with receipts."""
    text = {"type": ["string", "null"]}
    entry = _closed(
        {
            "label": {"type": "string"},
            "guarantee": {"$ref": "#/$defs/guarantee"},
            "events": {"type": "array", "items": {"type": "object"}},
            "part": text,
            "times": {"type": "integer", "minimum": 1},
            "person": {"type": "string"},
            "receipts": {"type": "array", "items": {"$ref": "#/$defs/ReceiptEntry"}},
        }
    )
    return {**entry, "required": [name for name in entry["properties"] if name != "person"]}


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _describe(entry: dict[str, Any]) -> None:
    """Take the description of each property from the docstring of its object."""
    text, _, attributes = inspect.cleandoc(entry["description"]).partition("\n\nAttributes\n")
    entry["description"] = " ".join(text.split())
    for names, said in _ATTRIBUTE.findall(attributes):
        for name in names.split(", "):
            entry["properties"][name] = {
                "description": " ".join(said.split()),
                **entry["properties"][name],
            }


if __name__ == "__main__":
    path = Path(__file__).parents[2] / "privatelr/results/release.schema.json"
    path.write_text(json.dumps(document_schema(), indent=1) + "\n", encoding="utf-8")
