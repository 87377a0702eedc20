"""One line for each command of ``privatelr``, and a folder in which it can be run."""

import json
import os
import subprocess
import sys

from frames_for_laws import SCHEMA, clinic_by_age

from privatelr import ZCDP, Ledger, dplpsvm, dplr, dpsimplex, dpsvm
from privatelr.cli.options import _OPTIONS

FORMULA = "y ~ age + dose + smoker + größe"
POINTS = "4 2 0.5 1  .5 .5  .1 .2  .3 .4  .2 .1  1 -1 1 -1"
STUDY = f"""
formula = "{FORMULA}"
eps = 4.0
[bounds]
age = [18, 90]
dose = [0, 5]
"größe" = [0, 3]
[levels]
smoker = ["no", "yes"]
y = [0, 1]
"""
LINES = {
    "demo": "demo",
    "plan": "plan --schema study.toml --n 600 --spend coefficients=1",
    "check": "check clinic.csv --schema study.toml",
    "fit": "fit clinic.csv --schema study.toml --seed 3",
    "schema init": "schema init clinic.csv",
    "bounds": "bounds clinic.csv --bounds age=0:200 --eps 4 --seed 3",
    "levels": "levels clinic.csv smoker --eps 4 --delta 1e-6 --seed 3",
    "predict": "predict lr.json clinic.csv",
    "card": "card lr.json",
    "roc": "roc lr.json clinic.csv --eps 1 --seed 3",
    "choose": "choose lr.json svm.json clinic.csv --rho 1 --seed 3",
    "compare": "compare lr.json lp.json",
    "lrsimple": "lrsimple points.txt --seed 3",
    "svmsimple": "svmsimple svm.txt --seed 3",
    "ledger show": "ledger show clinic.ledger",
    "ledger entries": "ledger entries clinic.ledger",
    "ledger check": "ledger check clinic.ledger charged.json",
    "ledger export": "ledger export clinic.ledger",
}
"""But for the audit, which takes minutes, and a command that runs once on a name of a file."""
assert {*LINES, "audit", "ledger create"} == {*_OPTIONS}
WRITING = [
    name for name, groups in _OPTIONS.items() if any("--out" in row.split() for _, row in groups)
]
"""Commands with an option for a file."""


def people():
    """A table whose last column has a name that is not ASCII."""
    table = clinic_by_age(600)
    return table.assign(größe=table["dose"] / 2)


def prepare(folder):
    """Write a table, a study and a model of each method into a folder."""
    table = people()
    declared = {**SCHEMA, "bounds": {**SCHEMA["bounds"], "größe": (0, 3)}}
    table.to_csv(folder / "clinic.csv", index=False)
    models = {
        "lr": dplr(FORMULA, table, **declared, eps=4),
        "bought": dplr(FORMULA, table, **declared, eps=4, spend={"coefficients": 0.7, "roc": 0.3}),
        "svm": dpsvm(FORMULA, table, **declared, eps=ZCDP(1)),
        "lp": dplpsvm(FORMULA, table, **declared, eps=4),
        "simplex": dpsimplex(FORMULA, table, **declared, eps=20),
    }
    for name, model in models.items():
        model.save(folder / f"{name}.json")
    ledger = Ledger.create(folder / "clinic.ledger", 100.0)
    dplr(FORMULA, table, **declared, eps=4, ledger=ledger).save(folder / "charged.json")
    (folder / "study.toml").write_text(STUDY, encoding="utf-8")
    (folder / "points.txt").write_text(POINTS, encoding="utf-8")
    (folder / "svm.txt").write_text(POINTS.replace("0.5 1", "5 1 .5", 1), encoding="utf-8")
    return folder


RUN_EACH = """
import io, json, shlex, sys

from privatelr import cli

found = []
for line in json.loads(sys.argv[1]):
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding=sys.argv[2]) for _ in range(2))
    real = sys.stdout, sys.stderr
    err.reconfigure(errors="backslashreplace")
    sys.stdout, sys.stderr = out, err
    try:
        status = cli.main(shlex.split(line))
    except SystemExit as stop:
        status = stop.code
    finally:
        sys.stdout, sys.stderr = real
    told = []
    for stream in (out, err):
        stream.flush()
        told.append(stream.buffer.getvalue().decode(sys.argv[2]))
    found.append([status, *told])
print(json.dumps(found))
"""


def run_each(lines, folder, *, before=(), encoding="utf-8", **environment):
    """Run lines in one process of their own; returns status, output and standard error of each.

    The process has a path, these variables, and no others.
    """
    bare = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    done = subprocess.run(
        [*before, sys.executable, "-c", RUN_EACH, json.dumps(lines), encoding],
        cwd=folder,
        env={**bare, **environment},
        capture_output=True,
        check=True,
        timeout=300,
    )
    return json.loads(done.stdout)
