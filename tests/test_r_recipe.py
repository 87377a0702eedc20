"""The recipe for R on the page about R is run where R is there."""

import json
import os
import re
import shutil
import subprocess
import sys

import docs
import pytest

PAGE = docs.ROOT / "vignettes" / "from-r.md"
BLOCK = re.compile(r"^```r\n(.*?)^```", re.M | re.S)


def r_has_reticulate():
    if shutil.which("Rscript") is None:
        return False
    asked = ["Rscript", "-e", 'quit(status = !requireNamespace("reticulate", quietly = TRUE))']
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


def test_the_page_has_one_recipe():
    (recipe,) = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert "reticulate" in recipe


@pytest.mark.skipif(not r_has_reticulate(), reason="takes R with the package reticulate")
def test_the_recipe_runs(tmp_path):
    (recipe,) = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    (tmp_path / "recipe.R").write_text(
        recipe + 'stopifnot(nrow(estimates) == 5, names(estimates)[1] == "term")\n'
    )
    here = {**os.environ, "RETICULATE_PYTHON": sys.executable, "PYTHONPATH": str(docs.ROOT)}
    here.pop("OMP_NUM_THREADS", None)
    ran = subprocess.run(
        ["Rscript", "recipe.R"], cwd=tmp_path, env=here, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "Differentially private logistic regression" in ran.stdout
    assert re.search(r"setosa versicolor +virginica *\n +50 +50 +50", ran.stdout)
    saved = json.loads((tmp_path / "iris.json").read_text(encoding="utf-8"))
    assert saved["guarantee"]["epsilon"] == 1
