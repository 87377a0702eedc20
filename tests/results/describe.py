"""The published schema of release files, worked out from the types of their entries.

    python -m tests.results.describe     writes privatelr/results/release.schema.json

Run after a change of the entries; a test compares.
"""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import msgspec

from privatelr.numerics import LOSSES
from privatelr.results.release_files.calibration_entries import (
    PerturbationEntry,
    SimplexEntry,
    WeightsEntry,
)
from privatelr.results.release_files.design_entries import FormulaEntry, MatrixEntry
from privatelr.results.release_files.document_entries import VERSION, Document

_ATTRIBUTE = re.compile(r"^(\w+)\n    (.*?)(?=\n\w|\Z)", re.MULTILINE | re.DOTALL)


def document_schema() -> dict[str, Any]:
    """JSON Schema of the format."""
    types = (PerturbationEntry, WeightsEntry, SimplexEntry, FormulaEntry, MatrixEntry)
    whole = Document[Any, Any]
    (*parts, reference), defined = msgspec.json.schema_components((*types, whole))
    document = defined.pop(reference["$ref"].rpartition("/")[2])
    for entry in (document, *defined.values()):
        _describe(entry)
    properties = document["properties"]
    properties["calibration"]["oneOf"], properties["design"]["oneOf"] = parts[:3], parts[3:]
    for entry in defined.values():
        if "loss" in entry["properties"]:
            entry["properties"]["loss"] = {"$ref": "#/$defs/loss"}
    properties["written_by"]["required"] = ["privatelr", "python"]
    later = ("scale", "roc")
    document["required"] = [name for name in properties if name not in later]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:privatelr:release:{VERSION}",
        **document,
        "title": "privatelr release",
        "$defs": {**defined, "loss": _losses()},
    }


def _losses() -> dict[str, Any]:
    """Names of losses, and objects for the families."""
    plain = [name for name, loss in LOSSES.items() if not loss.parameters]
    families = {name: loss.parameters for name, loss in LOSSES.items() if loss.parameters}
    numbers = {name: {"type": "number"} for loss in families.values() for name in loss}
    family = {
        "type": "object",
        "properties": {"name": {"enum": list(families)}, **numbers},
        "required": ["name"],
        "additionalProperties": False,
    }
    return {"oneOf": [{"enum": plain}, family]}


def _describe(entry: dict[str, Any]) -> None:
    """Take the description of each property from the docstring of its object."""
    text, _, attributes = inspect.cleandoc(entry["description"]).partition("\n\nAttributes\n")
    entry["description"] = " ".join(text.split())
    for name, said in _ATTRIBUTE.findall(attributes):
        entry["properties"][name] = {
            "description": " ".join(said.split()),
            **entry["properties"][name],
        }


if __name__ == "__main__":
    path = Path(__file__).parents[2] / "privatelr/results/release.schema.json"
    path.write_text(json.dumps(document_schema(), indent=1) + "\n", encoding="utf-8")
