"""The study of errors beside other packages: the page shows what is stored, and its rows fit."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from studies import peer_errors as study
from studies import peers_in_r
from studies.scale_tables import TABLES, read_table
from studies.stored import stored

PAGE = Path(__file__).resolve().parents[2] / "vignettes" / "peers.md"
RESULTS = stored("peer_errors")["results"]


def test_the_page_shows_what_is_stored():
    page = PAGE.read_text(encoding="utf-8")
    assert {*RESULTS} == {*study.SHOWN}
    for place in (0, 1):
        assert "\n".join(study.markdown(RESULTS, place)) in page


@pytest.mark.parametrize("name", study.SHOWN)
def test_nobody_is_nearer_at_the_same_epsilon(name):
    """In log loss, beyond two standard errors of either."""
    ours = RESULTS[name][study.OURS]
    for kind in {*study.MARKS} - {study.OURS, study.PLAIN}:
        for eps, (_, (loss, error)) in RESULTS[name][kind].items():
            mine, own = ours[eps][1]
            assert mine <= loss + 2 * np.hypot(error, own)


def anes96():
    return TABLES["anes96"], read_table("anes96", Path())


def test_rows_of_peers_keep_the_length_that_they_are_told():
    table, frame = anes96()
    x = study.rows(frame, table)
    lengths = np.sqrt((x**2).sum(axis=1))
    assert 0.5 * study.longest(table) < lengths.max() <= study.longest(table) * (1 + 1e-12)
    bounds = peers_in_r.bounds_of_rows(table, x.shape[1])
    assert (bounds.lower.to_numpy() <= x.min(axis=0)).all()
    assert (bounds.upper.to_numpy() >= x.max(axis=0)).all()


def test_fits_of_python_are_near_where_epsilon_is_large():
    found = study.once(*anes96(), 0, study.Asked())
    assert {*found} == {study.OURS, study.R, study.PLAIN}
    for prices in found.values():
        ((area, loss),) = prices["10"]
        assert area > 0.9
        assert loss < 0.6


def test_only_the_fits_that_are_named_run():
    found = study.once(*anes96(), 0, study.Asked({study.PLAIN, study.THEIRS}))
    assert {*found} == {study.PLAIN}


def program(path, text):
    path.write_text(f"#!{sys.executable}\n{text}", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


FIRST_COLUMN = """
import sys
from pathlib import Path

_, script, folder, norm, gamma, *prices = sys.argv
width = len((Path(folder) / "bounds.csv").read_text().splitlines()) - 1
assert Path(script).exists()
assert (Path(folder) / "rows.csv").read_text().splitlines()[0].split(",")[-1] == "y"
for name, slope in (("privatelr", norm), ("dppack", gamma)):
    line = ",".join(["0.5", slope, *["0"] * (width - 1)])
    (Path(folder) / f"{name}.csv").write_text((line + "\\n") * len(prices))
"""


def test_what_r_answers_becomes_linear_predictors(tmp_path):
    """A program in place of R answers an intercept and a slope of the first column."""
    table, frame = anes96()
    x, y = study.rows(frame, table), frame[table.response].to_numpy()
    stand_in = program(tmp_path / "stand_in", FIRST_COLUMN)
    norm = study.longest(table)
    found = peers_in_r.by_r(peers_in_r.InR(stand_in), table, (x, y), x[:7], norm, (1.0, 3.0))
    assert {*found} == {study.PRIVATELR, study.DPPACK}
    for by in found.values():
        assert [*by] == [1.0, 3.0]
        for link in by.values():
            np.testing.assert_allclose(link, 0.5 + x[:7, 0])


def test_what_r_says_of_a_failure_is_passed_on(tmp_path):
    table, frame = anes96()
    x, y = study.rows(frame, table), frame[table.response].to_numpy()
    stand_in = program(tmp_path / "stand_in", "import sys\nsys.exit('no such package')")
    with pytest.raises(RuntimeError, match="no such package"):
        peers_in_r.by_r(peers_in_r.InR(stand_in), table, (x, y), x[:7], 3.0, (1.0,))


def r_has_both():
    if shutil.which("Rscript") is None:
        return False
    asked = (
        'quit(status = !all(sapply(c("PrivateLR", "DPpack"), requireNamespace, quietly = TRUE)))'
    )
    return (
        subprocess.run(["Rscript", "-e", asked], capture_output=True, check=False).returncode == 0
    )


@pytest.mark.skipif(not r_has_both(), reason="takes R with the packages PrivateLR and DPpack")
def test_fits_of_r_are_near_where_epsilon_is_large():
    asked = study.Asked({study.PRIVATELR, study.DPPACK}, r=peers_in_r.InR("Rscript"))
    found = study.once(*anes96(), 0, asked)
    assert {*found} == {study.PRIVATELR, study.DPPACK}
    for prices in found.values():
        ((area, loss),) = prices["10"]
        assert area > 0.9
        assert loss < 0.6
