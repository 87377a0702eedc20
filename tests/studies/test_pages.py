"""The pages show the tables that studies stored, and the studies can be imported."""

import importlib
from pathlib import Path

import numpy as np
import pytest
from studies import high_dimension, lp_svm, peer_errors, suggested_bounds
from studies.stored import stored

STUDIES = Path(__file__).parent
VIGNETTES = STUDIES.parents[1] / "vignettes"
SCRIPTS = sorted(
    f"{folder}.{path.stem}"
    for folder in ("studies", "benchmarks")
    for path in (STUDIES.parent / folder).glob("*.py")
    if not path.stem.startswith("test_")
)


def page(name):
    return (VIGNETTES / f"{name}.md").read_text(encoding="utf-8")


def results(name):
    return stored(name)["results"]


@pytest.mark.full
@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_can_be_imported(script):
    importlib.import_module(script)


def tables_of(name):
    match name:
        case "lp_svm":
            return [*lp_svm.report(results(name)).values()]
        case "high_dimension":
            return [*high_dimension.report(results(name))]
        case "simplex_cod_rna":
            return [high_dimension.simplex_report(results(name)["simplex"])]
        case "peer_errors":
            return ["\n".join(peer_errors.markdown(results(name), place)) for place in (0, 1)]
        case "suggested_bounds":
            return ["\n".join(suggested_bounds.markdown(results(name), "area"))]


PAGES = {
    "lp_svm": "lp-svm",
    "high_dimension": "high-dimension",
    "simplex_cod_rna": "high-dimension",
    "peer_errors": "peers",
    "suggested_bounds": "choosing-bounds",
}


@pytest.mark.parametrize("name", PAGES)
def test_the_page_shows_the_stored_tables(name):
    text = page(PAGES[name])
    for table in tables_of(name):
        assert table in text
    assert f"python -m tests.studies.{name}" in text
    for how in stored(name)["made"].values():
        assert how["command"].startswith(f"python -m tests.studies.{name}")


def test_errors_of_the_linear_program_machine_are_as_published():
    found = lp_svm.means(results("lp_svm")["table"])
    for data in lp_svm.LAMBDAS:
        for kind, published, measured in zip(
            ("fixed", "qp", "dmw"), lp_svm.PUBLISHED[data], lp_svm.MEASURED[data], strict=True
        ):
            assert abs(found[data, kind] - published) < lp_svm.CLOSE
            assert abs(found[data, kind] - measured) < lp_svm.CLOSE


def test_gaussian_noise_is_flat_in_the_number_of_columns_and_spherical_noise_is_not():
    cell = {tuple(entry[:4]): entry[4] for entry in results("high_dimension")["perturbation"]}
    for lambda_, plain, _ in results("high_dimension")["plain"]:
        for epsilon in high_dimension.BLOAT_EPSILONS:
            widths = high_dimension.WIDTHS
            flat = [cell["Objective-Gauss", p, epsilon, lambda_] for p in widths]
            assert max(abs(accuracy - plain) for accuracy in flat) < 0.005
            fallen = [cell["Output", p, epsilon, lambda_] for p in widths]
            assert fallen[0] - fallen[-1] > 0.1


@pytest.mark.parametrize("name", peer_errors.SHOWN)
def test_no_peer_has_less_log_loss_at_the_same_epsilon(name):
    """Beyond two standard errors of either."""
    found = results("peer_errors")[name]
    ours = found[peer_errors.OURS]
    for kind in {*peer_errors.MARKS} - {peer_errors.OURS, peer_errors.PLAIN}:
        for eps, (_, (loss, error)) in found[kind].items():
            mine, own = ours[eps][1]
            assert mine <= loss + 2 * np.hypot(error, own)


def test_suggested_bounds_reach_95_percent_of_oracle_bounds():
    found, text = results("suggested_bounds"), page("choosing-bounds")
    accuracy, area = (suggested_bounds.least_shares(found, what) for what in ("accuracy", "area"))
    assert min(accuracy["share"], area["share"]) >= 0.95
    for share in (accuracy["share"], area["share"], area["above a guess"]):
        assert f"{share:.1%}" in text
    assert f"{accuracy['above a guess']:.0%}" in text
