"""The entries of a release file about guarantees, noise and calibrations."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from msgspec import UNSET, Meta, Struct, UnsetType, field

Size = Annotated[float, Meta(ge=1e-100, le=1e100)]
"""A size of noise or rows for which no formula over- or underflows."""
ZeroOrSize = Annotated[float, Meta(ge=0.0, le=1e100)]
Positive = Annotated[float, Meta(gt=0.0)]
NotNegative = Annotated[float, Meta(ge=0.0)]
Count = Annotated[int, Meta(ge=1)]
Phrase = Annotated[str, Meta(max_length=200)]
"""A text that is printed as it is, so it stays within its line."""
Neighbourhood = Literal["REPLACE_ONE"]


class FileEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """An object of the file, with all of its entries and no others."""

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
        """An entry with these values, and the rest of the first source that has them."""
        for name in cls.__struct_fields__:
            if name not in given:
                given[name] = next(getattr(s, name) for s in sources if hasattr(s, name))
        return cls(**given)


def require_printable(text: str, name: str) -> None:
    """Refuse what would not stay in its place on a page."""
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


class NoGuaranteeEntry(FileEntry, frozen=True, tag_field="kind", tag="none"):
    """No privacy, and why."""

    _phrases = ("reason",)
    reason: Phrase
    neighbours: Neighbourhood


GuaranteeEntry = PureEntry | ZcdpEntry | ApproximateEntry | NoGuaranteeEntry


class BlockEntry(FileEntry, frozen=True):
    """A block of columns, and what a row has in it at most.

    Attributes
    ----------
    norm
        Absent: the bound is to the sum of sizes of the columns. l2: it is to the length of the
        columns of all such blocks together, which have the same bound.
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

    The norm of a block is that of its bound.
    """

    blocks: list[BlockEntry]
    rate: Size


class GaussianEntry(FileEntry, frozen=True, tag_field="law", tag="gaussian"):
    """Independent normal coordinates."""

    dimension: Count
    sd: Size


class NoNoiseEntry(FileEntry, frozen=True, tag_field="law", tag="none"):
    """Nothing is added."""

    dimension: Count


LawEntry = SphericalEntry | BlockLaplaceEntry | GaussianEntry | NoNoiseEntry


# -- calibrations ----------------------------------------------------------------------------


LossEntry = str | dict[str, str | float]
"""The name of a loss, or of a family beside the numbers that pick a loss from it."""


class RuleEntry(FileEntry, frozen=True):
    """A lower limit to lambda, and what it is for."""

    _phrases = ("rule",)
    rule: Phrase
    lambda_: NotNegative = field(name="lambda")


class AlternativeEntry(FileEntry, frozen=True):
    """A law of noise that was not chosen.

    Attributes
    ----------
    ratio
        Root mean square length over that of the chosen noise; null where impossible.
    """

    _phrases = ("noise",)
    noise: Phrase
    ratio: NotNegative | None


class PerturbationEntry(FileEntry, frozen=True):
    """How the part of the guarantee that is about the coefficients was reached, by noise.

    Attributes
    ----------
    placement
        Noise in the objective, or on its minimiser.
    analysis
        The bound that fixed the size of the noise.
    target
        The guarantee that the noise was calibrated to.
    n
        Records; public.
    d
        Columns of the design, the intercept included.
    radius
        R, the largest length of a row, the intercept included.
    blocks
        Blocks of columns, and what a row has in each at most; empty if the design is no product
        of blocks.
    lambda
        Penalty of the mean objective, (1/n) sum loss + (lambda/2) |w|^2.
    noise
        Law of the tilt of the objective in its sum form, or of what is added to the minimiser.
    shield
        Law of what is added to the minimiser of a tilted objective.
    tau
        Certified norm of the gradient of the sum form at what the solver returned; 0 for a fit
        without noise.
    grid
        Power of two; coefficients in scaled units are multiples of it. 0 for a fit without noise.
    """

    _phrases = ("analysis", "lambda_origin")
    _sizes = ("lambda_", "tau", "grid")
    placement: Literal["objective", "output"]
    analysis: Phrase
    target: GuaranteeEntry
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


class SelectionEntry(FileEntry, frozen=True):
    """How the guarantee was reached where columns were chosen."""

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
        Fraction of the records over which weights are spread at least.
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
    """Bounds on how the logarithm of theta differs between neighbours."""

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
        Sum of the sizes of the coefficients, at most.
    lambda
        Penalty of the mean objective, (1/n) sum loss + lambda sum theta log theta.
    tolerance
        Spread of the conditions of the minimum.
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
