"""Terms that would learn from the data are refused, with their name and a remedy."""

import pandas as pd
import pytest

from privatelr.design import plan_design
from privatelr.errors import FormulaError, SchemaError
from privatelr.formula import ROW_FUNCTIONS, parse_formula
from privatelr.formula.functions import LEARNED, SUMMARIES
from privatelr.sources import as_batch, declare_schema

FRAME = pd.DataFrame(
    {
        "y": [False, True],
        "x": [1.0, 2.0],
        "Sepal.Length": [1.0, 2.0],
        "s": ["u", "v"],
        "o": [1, "a"],
    }
).astype({"s": "string"})


def plan(formula, **schema):
    parsed = parse_formula(formula, list(FRAME.columns))
    return plan_design(parsed, as_batch(FRAME), declare_schema(**schema))


LEARNING = [
    ("scale(x)", ["bounds=", "(lo, hi)", "public constants"]),
    ("poly(x, 2)", ["I(x^2)", "bounds="]),
    ("bs(x, df = 4)", ["knots = c(30, 60)", "bounds="]),
    ("ns(x)", ["knots", "declared bounds"]),
    ("cut(x, 3)", ["breaks = c(0, 10, 20)"]),
    ("relevel(s, 'v')", ["levels=", '"s"', 'C(s, Treatment("level"))']),
    ("I(x > x.mean())", ["x.mean", "I(x > 3.2)", "bounds="]),
    ("hashing(x)", ["hashing", "row by row"]),
    ("o", ["levels=", "categorical"]),
    ("factor(x)", ["levels=", '"x"']),
    ("x:s", ["levels="]),
]


@pytest.mark.parametrize(("term", "remedy"), LEARNING)
def test_learning_terms_are_refused_with_a_remedy(term, remedy):
    with pytest.raises(SchemaError) as caught:
        plan(f"y ~ {term}")
    said = str(caught.value)
    named = term if term != "x:s" else "s"
    assert f"'{named}'" in said
    assert [words for words in remedy if words not in said] == []


def test_bounds_do_not_make_a_learning_term_acceptable():
    with pytest.raises(SchemaError, match="scale"):
        plan("y ~ scale(x)", bounds={"x": (0, 3), "y": (0, 1)}, row_norm=1.0)


@pytest.mark.parametrize("function", sorted((set(LEARNED) | SUMMARIES) - {"relevel"}))
def test_no_learning_function_is_in_the_table_of_row_functions(function):
    assert function not in ROW_FUNCTIONS
    with pytest.raises(SchemaError, match=function):
        plan(f"y ~ I({function}(x))")


def test_the_response_may_not_learn_either():
    with pytest.raises(SchemaError, match="mean"):
        plan("x > mean(x) ~ Sepal.Length")


@pytest.mark.parametrize(
    "call", ["log(x, 2)", "log(x, base=2)", "round(x, 1)", "pmin(x)", "sqrt()", "ifelse(x, 1)"]
)
def test_a_known_function_with_the_wrong_arguments_is_refused(call):
    # an argument that was dropped in silence would change the meaning of the term
    with pytest.raises((SchemaError, FormulaError), match=call.split("(")[0]):
        plan(f"y ~ I({call})")


@pytest.mark.parametrize("call", ["__import__('os')", "x.__class__(x)", "eval('x')", "open(x)"])
def test_a_term_cannot_reach_python(call):
    with pytest.raises((SchemaError, FormulaError)):
        plan(f"y ~ I({call})")


@pytest.mark.parametrize("term", ["factor(x, levels = c('a', 'b'))", "factor(s, levels = c(1, 2))"])
def test_levels_in_the_formula_must_have_the_type_of_the_column(term):
    # otherwise every row would be a row of zeros, and nobody would know
    with pytest.raises(SchemaError, match="levels"):
        plan(f"y ~ {term}")


def test_the_remedies_work():
    schema = {"bounds": {"x": (0, 3), "y": (0, 1)}, "levels": {"s": ["u", "v"]}}
    for term in ["I(x > 3.2)", "pmax(x - 3.2, 0)", "x + I(x^2)", "I((x - 130)/20)", "s"]:
        assert plan(f"y ~ {term}", **schema).bound_source == "declared bounds"


@pytest.mark.parametrize(("term", "is_empty"), [("bs(x, , 3)", True), ("bs(x, )) 3", False)])
def test_an_empty_argument_is_named(term, is_empty):
    with pytest.raises(FormulaError) as refused:
        plan(f"y ~ {term}", bounds={"x": (0, 1), "y": (0, 1)})
    assert ("an argument is empty" in str(refused.value)) is is_empty


ODD = ["y", "age", "Age (years)", "body mass", "BMI [kg/m2]", "a + b", "2nd visit", "x-1"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("y ~ Age (years)", "y ~ `Age (years)`"),
        ("y ~ Age(years) + age", "y ~ `Age (years)` + age"),
        ("y ~ body mass", "y ~ `body mass`"),
        ("y ~ 'body mass'", "y ~ `body mass`"),
        ('y ~ age * "body mass"', "y ~ age * `body mass`"),
        ("y ~ log(body mass) + `Age (years)`", "y ~ log(`body mass`) + `Age (years)`"),
        ("y ~ BMI [kg/m2] + body mass", "y ~ `BMI [kg/m2]` + `body mass`"),
        ("y ~ 2nd visit", "y ~ `2nd visit`"),
        ("body mass > 3 ~ age", "`body mass` > 3 ~ age"),
    ],
)
def test_a_name_with_unusual_characters_is_to_go_in_backticks(written, meant):
    with pytest.raises(FormulaError, match="unusual characters goes in backticks") as error:
        parse_formula(written, ODD)
    assert str(error.value).endswith(f", as in {meant!r}.")
    assert parse_formula(meant, ODD)


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        ("y ~ a + age", "reads the column 'a'"),
        ("y ~ age + lag(age)", "calls lag"),
        ("y ~ `body mass` + lag(age)", "calls lag"),
        ("y ~ antibody mass", "antibody"),
        ("y ~ body mass + lag(age)", "calls lag"),
        ("y ~ a + b + lag(age)", "calls lag"),
    ],
)
def test_other_mistakes_keep_their_own_words(formula, words):
    with pytest.raises((FormulaError, SchemaError), match=words):
        parse_formula(formula, ODD)


def test_a_part_of_an_unusual_name_is_told_the_whole():
    with pytest.raises(FormulaError, match=r"is 'Age \(years\)', which is written `Age \(years\)`"):
        parse_formula("y ~ Age", ["y", "dose", "Age (years)"])
