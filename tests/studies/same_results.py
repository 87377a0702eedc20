"""Whether two checkouts compute and print the same: ``python -m tests.studies.same_results OTHER``.

Some hundred calls run in both, under the same injected noise. Coefficients are compared to the last
bit; pages, tables, predictions, release files, plans and messages to the letter.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from difflib import unified_diff
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parents[2]
SHARES = {"coefficients": 0.6, "inference": 0.4}
OPTIONS = [
    {"eps": eps, "delta": delta, **more}
    for eps, delta, more in product(
        (0.3, 2.0),
        (0.0, 1e-6),
        (
            *({}, {"spend": "inference"}, {"spend": SHARES, "op": False}, {"op": False}),
            *({"lambda_": 0.05}, {"rp_dim": 2}, {"lambda_": "free"}, {"threshold": 0.3}),
            *({"analysis": "cms11"}, {"intercept_scale": 1.0}, {"row_norm": 1.0}),
        ),
    )
] + [{"eps": 0, "lambda_": 0.05}, {"eps": 0, "lambda_": 0.05, "do_scale": True}, {"eps": -1}]
FORMULAS = [
    *("y ~ age + dose + smoker", "y ~ age * smoker", "smoker == 'yes' ~ age + dose", "y ~ 1"),
    *("y ~ log(age) + I(dose**2) - 1", "y ~ poly(dose, 2, raw=TRUE)", "y ~ . - dose", "y ~ (age"),
    *("y ~ C(smoker, contr.sum):dose", "I(age > 40) ~ dose + smoker", "y ~ (age + dose)**2"),
    *("y ~ age %in% smoker", "y ~ log(balance)", "y ~ I(!(age > 40 & dose < 2))", "y ~ I(age/)"),
    *("!(y == 1) ~ pmin(age, 50) + dose", "y ~ ifelse(age > 40, dose, 0)", "y ~ lm(age)"),
]
LEARNERS = [
    *(("dpsvm", {}), ("dpsvm", {"h": 0.1}), ("dpsvm", {"loss": "softplus"}), ("dpsimplex", {})),
    *(("dplpsvm", {"rounds": 20}), ("dplpsvm", {"minority": 0.3, "rounds": 20})),
]
VIEWS = [
    *("coef.to_numpy().tobytes().hex()", "summary()", "summary(diagnostics=True)", "glance()"),
    *("summary()._repr_html_()", "summary(target='unpenalised')"),
    *(
        "summary(exponentiate=True)",
        "card()",
        "card('html')",
        "calibration",
        "release.coef",
    ),
    *("tidy()", "tidy(conf_int=True)", "tidy(exponentiate=True)", "odds_ratios", "privacy_sd"),
    *("conf_int()", "confint(simultaneous=True)", "confint(mode='plug-in')", "bse"),
    *(
        "contrasts('age - 2 * dose')",
        "contrasts('dose + smoker[T.yes]')",
        "wald_test('age = 0, dose = 0')",
    ),
    *("t_test('age = 2 * dose + 1')", "t_test('age +* dose')", "t_test('nothing = 0')", "pvalues"),
    *("cov_params()", "predict(frame)", "predict(frame, 'class')", "predict(frame, 'link')"),
    *("predict(frame, interval=.9)", "threshold", "guarantee", "origin"),
    *("privacy_sd_limit", "diagnostics", "nobs", "release.entry", "selected", "vcov()", "params"),
]
TOOLS = [
    *("average_marginal_effects(fit, frame)", "average_marginal_effects(fit)"),
    *("check(FORMULAS[0], frame, **SCHEMA)", "check('y ~ log(age)', frame)"),
    *("plan(FORMULAS[0], 500, spend=None, **SCHEMA)", "plan('y ~ age', 9, eps=.1, **SCHEMA)"),
    *("compare(fit, fit)", "compare({'a': fit}, digits=4).as_html()"),
    *("plot_coefficients(fit).get_title()", "compose([PureDP(.1)] * 9 + [ZCDP(.1)])"),
    *("to_approximate(ZCDP(.1), 1e-6)", "scaled(frame['age'])", "saved(fit)", "ledger_of(frame)"),
]
SCHEMA = {"bounds": {"age": (18, 90), "dose": (0, 5)}, "levels": {"smoker": ["no", "yes"]}}


def clinic(n=400):
    """A frame with two bounded numbers, a factor and a response that depends on them."""
    rng = np.random.default_rng(5)
    age, dose = rng.uniform(18, 90, n), rng.uniform(0, 5, n)
    smoker = rng.choice(["no", "yes"], n)
    link = -3 + 0.05 * age + 0.4 * dose - (smoker == "yes")
    y = rng.random(n) < 1 / (1 + np.exp(-link))
    return pd.DataFrame({"age": age, "dose": dose, "smoker": smoker, "y": y})


def calls(lr):
    """Learner, formula and options of each call."""
    for options in OPTIONS:
        yield "dplr", FORMULAS[0], options
    for more in ({}, {"spend": "inference"}, {"op": False}):
        yield "dplr", FORMULAS[0], {"eps": lr.ZCDP(0.1), **more}
    for learner, more in LEARNERS:
        for given in ({"eps": 2.0}, {"eps": 2.0, "delta": 1e-6}, {"eps": 0}):
            yield learner, FORMULAS[0], {**given, **more}
    for formula in FORMULAS:
        yield "dplr", formula, {"eps": 2.0, "spend": "inference"}


def as_text(thing):
    """What a person can see of a value, tables and arrays in full."""
    if hasattr(thing, "to_csv"):
        return thing.to_csv()
    text = str(thing.tolist()) if isinstance(thing, np.ndarray) else f"{thing}"
    return re.sub(r" at 0x[0-9a-f]+|\d{4}-\d\d-\d\d[T ]?[\d:.Z+]*|/tmp/\S+", "", text)


def attempt(expression, names):
    """The text of what an expression returns, or of what it raises."""
    try:
        return as_text(eval(expression, names))
    except Exception as refusal:
        return f"{type(refusal).__name__}: {refusal}"


def saved(fit):
    """The release file of a fit."""
    with tempfile.TemporaryDirectory() as folder:
        fit.save(path := Path(folder) / "fit.json")
        return path.read_text(encoding="utf-8")


def show(lr):
    """Print every call with all its views, under noise that is the same in each."""
    import privatelr.fitting
    from privatelr.privacy.noise import SeededRandomness

    class Repeated:
        is_secret = True

        def __init__(self):
            stream = SeededRandomness(3)
            self.draw, self.uniforms = stream.draw, stream.uniforms

    privatelr.fitting.SystemRandomness = Repeated
    frame, ledger = clinic(), lr.Ledger(300.0, 1e-4)
    names = {**globals(), **{name: getattr(lr, name) for name in lr.__all__}, "frame": frame}
    names["ledger_of"] = lambda _: ledger
    for learner, formula, options in calls(lr):
        call = f"{learner} {formula} {options}"
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            given = {**SCHEMA, "ledger": ledger if options["eps"] else None, **options}
            try:
                names["fit"] = getattr(lr, learner)(formula, frame, **given)
            except Exception as refusal:
                tell(call, "fit", f"{type(refusal).__name__} {refusal}")
                continue
            for view in VIEWS:
                tell(call, view, attempt(f"fit.{view}", names))
            tell(call, "repr(fit)", attempt("repr(fit)", names))
        texts = {f"{one.category.__name__}: {one.message}" for one in said}
        tell(call, "warnings", "\n".join(sorted(texts)))
    names["fit"] = lr.dplr(FORMULAS[0], frame, eps=2.0, spend="inference", **SCHEMA)
    for tool in TOOLS:
        tell("", tool, attempt(tool, names))


def tell(call, view, seen):
    """Print what one view of a call shows."""
    print(json.dumps([call, view, seen]))


def shown(checkout):
    """What every view of every call shows in a checkout."""
    code = (
        f"import sys; sys.path[:0] = [{str(checkout)!r}]; import privatelr; sys.path[:1] = []\n"
        f"sys.path[:0] = [{str(HERE)!r}]; from tests.studies import same_results\n"
        "same_results.show(privatelr)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={**os.environ, "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return {(call, view): seen for call, view, seen in map(json.loads, done.stdout.splitlines())}


def main():
    """Print how many views there are, and those that differ."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("other", type=Path, help="another checkout of the package")
    chosen = parser.parse_args()
    here, other = shown(HERE), shown(chosen.other.resolve())
    differing = [key for key in {**here, **other} if here.get(key) != other.get(key)]
    for key in differing[:20]:
        told = [str(one.get(key)).splitlines() for one in (other, here)]
        print(*key, *unified_diff(*told, "other", "here", lineterm="", n=0), sep="\n")
    lines = sum(len(seen.splitlines()) for seen in here.values())
    print(f"{len(here):,} views of {lines:,} lines; {len(differing):,} differ")
    raise SystemExit(bool(differing))


if __name__ == "__main__":
    main()
