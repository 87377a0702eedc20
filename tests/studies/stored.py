"""Results of long runs, beside the studies, with the command and versions that made them."""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import privatelr

FOLDER = Path(__file__).parent / "results"


def store(name: str, command: str, results: dict[str, Any]) -> Path:
    """Write results, each with how it was made; those of other names are kept."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.json"
    versions = {
        "python": platform.python_version(),
        "privatelr": privatelr.__version__,
        **{package: version(package) for package in ("numpy", "scipy", "pandas")},
    }
    before = stored(name) if path.exists() else {"made": {}, "results": {}}
    made = {key: {"command": command, "versions": versions} for key in results}
    document = {"made": before["made"] | made, "results": before["results"] | results}
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(f"{json.dumps(document, allow_nan=False)}\n", encoding="utf-8")
    temporary.replace(path)
    return path


def stored(name: str) -> dict[str, Any]:
    """What `store` wrote."""
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found
