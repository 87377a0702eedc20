"""The entries of a release file about guarantees, noise and calibrations."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from msgspec import UNSET, Meta, Struct, UnsetType, field

Size = Annotated[float, Meta(ge=1e-100, le=1e100)]
"""A size of noise or rows at which no formula overflows or underflows."""
ZeroOrSize = Annotated[float, Meta(ge=0.0, le=1e100)]
Positive = Annotated[float, Meta(gt=0.0)]
NotNegative = Annotated[float, Meta(ge=0.0)]
Count = Annotated[int, Meta(ge=1)]
Position = Annotated[int, Meta(ge=0)]
Times = Annotated[int, Meta(ge=1, le=10**9)]
Phrase = Annotated[str, Meta(max_length=200)]
"""A text that is printed on one line as it is."""
Neighbourhood = Literal["REPLACE_ONE", "REPLACE_PERSON"]


class FileEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """An object of the file, which has all of its entries and no others."""

    _phrases: ClassVar[tuple[str, ...]] = ()
    _sizes: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name in self._phrases:
            require_printable(getattr(self, name), name)
        for name in self._sizes:
            if 0.0 < getattr(self, name) < 1e-100:
                raise ValueError(f"{name.removesuffix('_')} takes 0, or a number from 1e-100")

    @classmethod
    def of(cls, *sources: Any, **given: Any) -> Self:
        """An entry with the given values, and all others from the first source that has them."""
        for name in cls.__struct_fields__:
            if name not in given:
                given[name] = next(getattr(s, name) for s in sources if hasattr(s, name))
        return cls(**given)


def require_printable(text: str, name: str) -> None:
    """Raise `ValueError` if a text is not printable on one line."""
    if not text.isprintable():
        raise ValueError(f"{name} takes printable characters on one line")


# -- guarantees and noise --------------------------------------------------------------------


class PureEntry(FileEntry, frozen=True, tag_field="kind", tag="pure"):
    """Pure epsilon-differential privacy."""

    epsilon: Positive
    neighbours: Neighbourhood


class ZcdpEntry(FileEntry, frozen=True, tag_field="kind", tag="zcdp"):
    """Zero-concentrated differential privacy."""

    rho: Positive
    neighbours: Neighbourhood


class ApproximateEntry(FileEntry, frozen=True, tag_field="kind", tag="approximate"):
    """Approximate differential privacy."""

    epsilon: NotNegative
    delta: Annotated[float, Meta(gt=0.0, le=1.0)]
    neighbours: Neighbourhood


class SharedEntry(FileEntry, frozen=True, tag_field="kind", tag="shared"):
    """Approximate differential privacy of a part together with Gaussian parts beside it.

    Attributes
    ----------
    beside
        The mu of the parts beside it, all of them together.
    """

    epsilon: NotNegative
    delta: Annotated[float, Meta(gt=0.0, le=1.0)]
    beside: Positive
    neighbours: Neighbourhood


class NoGuaranteeEntry(FileEntry, frozen=True, tag_field="kind", tag="none"):
    """No privacy, with the reason."""

    _phrases = ("reason",)
    reason: Phrase
    neighbours: Neighbourhood


GuaranteeEntry = PureEntry | ZcdpEntry | ApproximateEntry | NoGuaranteeEntry


class BlockEntry(FileEntry, frozen=True):
    """A block of columns, with the bound on a row within it.

    Attributes
    ----------
    norm
        If it is absent, the sum of the absolute values of the columns is bounded. With l2, the
        length of the columns of all such blocks together is bounded; these have the same bound.
    """

    size: Count
    bound: Size
    norm: Literal["l2"] | UnsetType = UNSET


class SphericalEntry(FileEntry, frozen=True, tag_field="law", tag="spherical_laplace"):
    """Density proportional to exp(-rate |b|)."""

    dimension: Count
    rate: Size


class BlockLaplaceEntry(FileEntry, frozen=True, tag_field="law", tag="block_laplace"):
    """Density proportional to exp(-rate max over blocks of |b_f| / bound_f).

    The norm of a block is the one to which its bound refers.
    """

    blocks: list[BlockEntry]
    rate: Size


class GaussianEntry(FileEntry, frozen=True, tag_field="law", tag="gaussian"):
    """Independent normal coordinates with mean 0."""

    dimension: Count
    sd: Size


class NoNoiseEntry(FileEntry, frozen=True, tag_field="law", tag="none"):
    """No noise is added."""

    dimension: Count


class CopiedEntry(FileEntry, frozen=True, tag_field="law", tag="copied"):
    """Independent copies of one law, one after the other: one for each class."""

    each: SphericalEntry | BlockLaplaceEntry
    copies: Count


LawEntry = SphericalEntry | BlockLaplaceEntry | GaussianEntry | NoNoiseEntry | CopiedEntry


# -- stages beside the coefficients ----------------------------------------------------------


class ScaleEntry(FileEntry, frozen=True):
    """Means and mean squares of columns with noise, which standardised the rows.

    They are of the covariates in units that have declared bounds at -1 and 1; a record that could
    not be used counted as zeros.

    Attributes
    ----------
    target
        The part of the guarantee that is about these numbers.
    noise
        Law of the noise on all numbers together.
    grid
        A power of two; the numbers are multiples of it.
    means
        Of all covariates; under a pure target, of those that are one number.
    squares
        Mean squares of those covariates that are no indicators of levels, times a weight that
        follows from the target.
    """

    target: GuaranteeEntry
    noise: LawEntry
    grid: ZeroOrSize
    means: list[float]
    squares: list[float]


class ScoreCountsEntry(FileEntry, frozen=True):
    """Counts of the scores of the records by class, with noise, from which a ROC curve is computed.

    A score t is the linear predictor of a record at the released coefficients. Bins are equally
    wide in p(t) = (s(t / min(1, 2 spread)) + s((t - middle) / spread)) / 2, with s the logistic
    function, and an edge belongs to the bin below it.

    Attributes
    ----------
    target
        The part of the guarantee that is about the counts, given the coefficients.
    noise
        Law of the noise on all counts together; its dimension is 2 bins + 1.
    bins
        Number of bins of each class.
    middle
        A guess of the mean of scores, which follows from the coefficients and the declarations.
    spread
        A guess of the standard deviation of scores, which follows from the same.
    counts
        As released: whole numbers of records in the bins of the negative class, in those of the
        positive class, and of records that cannot be used.
    """

    target: GuaranteeEntry
    noise: LawEntry
    bins: Annotated[int, Meta(ge=2, le=1000)]
    middle: Annotated[float, Meta(ge=-1e100, le=1e100)]
    spread: Size
    counts: Annotated[list[int], Meta(min_length=5, max_length=2001)]


# -- calibrations ----------------------------------------------------------------------------


LossEntry = str | dict[str, str | float]
"""The name of a loss, or the name of a family with the parameters of the loss."""


class RuleEntry(FileEntry, frozen=True):
    """A lower limit of lambda, with its reason."""

    _phrases = ("rule",)
    rule: Phrase
    lambda_: NotNegative = field(name="lambda")


class AlternativeEntry(FileEntry, frozen=True):
    """A law of noise that was not chosen.

    Attributes
    ----------
    ratio
        Root mean square length over that of the chosen noise; null if this law is impossible.
    """

    _phrases = ("noise",)
    noise: Phrase
    ratio: NotNegative | None


class PerturbationEntry(FileEntry, frozen=True):
    """The calibration of noise for the part of the guarantee that is about the coefficients.

    Attributes
    ----------
    placement
        Noise is added to the objective, or to its minimiser (output).
    analysis
        The bound that determined the size of the noise.
    target
        The guarantee for which the noise was calibrated.
    n
        Number of records; it is public.
    d
        Number of columns of the design, with the intercept.
    radius
        R, the largest length of a row, with the intercept.
    blocks
        Blocks of columns, each with the bound on a row within it; empty if the design has none.
    lambda
        Penalty of the mean objective, (1/n) sum loss + (lambda/2) |w|^2.
    noise
        Law of the tilt of the objective in its sum form, or of the noise on the minimiser.
    shield
        Law of the small noise on the minimiser of a tilted objective, which covers its error.
    tau
        Certified bound on the norm of the gradient of the sum form at the point that the solver
        returned; 0 for a fit without noise.
    grid
        A power of two; coefficients in scaled units are multiples of it. 0 for a fit without noise.
    classes
        The number of classes, if there are more than two, each with d coefficients.
    """

    _phrases = ("analysis", "lambda_origin")
    _sizes = ("lambda_", "tau", "grid")
    placement: Literal["objective", "output"]
    analysis: Phrase
    target: GuaranteeEntry | SharedEntry
    n: Annotated[int, Meta(ge=1, le=10**15)]
    d: Annotated[int, Meta(ge=1, le=10**6)]
    loss: LossEntry
    radius: Size
    blocks: list[BlockEntry]
    lambda_: ZeroOrSize = field(name="lambda")
    lambda_origin: Phrase
    lambda_rules: list[RuleEntry]
    noise: LawEntry
    shield: LawEntry
    tau: ZeroOrSize
    grid: ZeroOrSize
    alternatives: list[AlternativeEntry]
    classes: Annotated[int, Meta(ge=3, le=50)] | UnsetType = UNSET


class SelectionEntry(FileEntry, frozen=True):
    """The calibration of a mechanism that chooses columns."""

    target: GuaranteeEntry
    n: Annotated[int, Meta(ge=1, le=10**9)]
    d: Annotated[int, Meta(ge=1, le=10**7)]
    x_bound: Size


class WeightsEntry(
    SelectionEntry, frozen=True, tag_field="mechanism", tag="multiplicative weights"
):
    """Multiplicative weights over the records.

    Each round chooses a column by the exponential mechanism.

    Attributes
    ----------
    x_bound
        Largest size of an entry of a row.
    density
        The least fraction of the records over which the weights are spread.
    eta
        Bounded range of one choice; null without a guarantee.
    """

    _phrases = ("rounds_origin",)
    density: Annotated[float, Meta(gt=0.0, lt=1.0)]
    rounds: Annotated[int, Meta(ge=1, le=10**6)]
    rounds_origin: Phrase
    step: Size
    score: Literal["margin", "count"]
    slack: Annotated[float, Meta(ge=0.0, lt=1.0)]
    sensitivity: Positive
    eta: Positive | None


class StabilityEntry(FileEntry, frozen=True):
    """Bounds on the difference of the logarithm of theta between neighbours."""

    largest: Positive
    width: Positive
    sd: Positive
    kappa: NotNegative


class SimplexEntry(SelectionEntry, frozen=True, tag_field="mechanism", tag="simplex draws"):
    """Draws from the minimiser of an entropy-penalised objective over the signed columns.

    Attributes
    ----------
    x_bound
        Largest size of an entry of a row.
    radius
        The largest sum of the absolute values of the coefficients.
    lambda
        Penalty of the mean objective, (1/n) sum loss + lambda sum theta log theta.
    tolerance
        The largest difference of the optimality conditions between two columns.
    stability
        Null without a guarantee.
    """

    _phrases = ("lambda_origin",)
    radius: Size
    loss: LossEntry
    lambda_: Size = field(name="lambda")
    lambda_origin: Phrase
    draws: Annotated[int, Meta(ge=0, le=10**6)]
    tolerance: Positive
    stability: StabilityEntry | None


AnySelection = WeightsEntry | SimplexEntry


class ChoicesEntry(FileEntry, frozen=True):
    """How often each option was chosen, for a mechanism that chooses columns.

    Option k below d is column k, and option d + k is column k with the opposite sign; both are
    counted from 0.

    Attributes
    ----------
    path
        The options in the order in which they were chosen; null if the order was not released.
    exact
        Coefficients in scaled units of a fit without a guarantee that did not count choices.
    """

    options: list[Position]
    times: list[Times]
    path: list[Position] | None
    exact: list[float] | None
