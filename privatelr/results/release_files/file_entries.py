"""The entries of a release file that all kinds of releases share: names, types and limits.

A document is read as these types and written from them, and the JSON Schema is made of them. A
condition on more than one entry is checked when the release is restored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
from msgspec import UNSET, Meta, Struct

from privatelr import mechanisms, privacy
from privatelr.errors import ReleaseFileError
from privatelr.numerics import Loss, find_loss
from privatelr.privacy.accounting import Entry, Receipt, entry_from_json, entry_to_json
from privatelr.results.release_files.json_values import CLOSE, named, read_entry
from privatelr.types import FloatArray

VERSION: Literal[9] = 9
Size = Annotated[float, Meta(ge=1e-100, le=1e100)]
"""A size of rows at which no formula overflows or underflows."""
Positive = Annotated[float, Meta(gt=0.0)]
Position = Annotated[int, Meta(ge=0)]
Records = Annotated[int, Meta(ge=1, le=10**15)]
Phrase = Annotated[str, Meta(max_length=200)]
"""A text that is printed on one line as it is."""
Label = Annotated[str, Meta(max_length=10**6)]
Name = Annotated[str, Meta(max_length=10_000)]
Level = str | bool | int | float
Pair = Annotated[list[float], Meta(min_length=2, max_length=2)]
Identifier = Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
GuaranteeEntry = dict[str, Any]
"""A guarantee: its kind, its numbers and its neighbours; or none, and the reason."""
_LONGEST_REASON = 200
LossEntry = str | dict[str, str | float]
"""The name of a loss, or the name of a family with the parameters of the loss."""
Parts = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]
"""The call of a release, its released numbers, and what follows from both."""
CallType = TypeVar("CallType")
ReleasedType = TypeVar("ReleasedType")


class FileEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """An object of the file, which has all of its entries and no others."""

    _phrases: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name in self._phrases:
            require_printable(getattr(self, name), name)


def require_printable(text: str, name: str) -> None:
    """Raise `ValueError` if a text is not printable on one line."""
    if not text.isprintable():
        raise ValueError(f"{name} takes printable characters on one line")


# -- guarantees and charges --------------------------------------------------------------------


class ReceiptEntry(FileEntry, frozen=True):
    """The place of a charge in a ledger on disk: the number of its row, and its hash.

    The hash follows from all rows before it. The name is one that no other ledger has.
    """

    ledger: Identifier
    dataset: Label
    row: Annotated[int, Meta(ge=2)]
    head: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


def read_guarantee(given: dict[str, Any], where: str) -> privacy.Guarantee:
    """The guarantee of an entry; a reason is printed on one line."""
    with named(where):
        guarantee: privacy.Guarantee = privacy.from_json(given)
    if guarantee.neighbours not in (privacy.REPLACE_ONE, privacy.REPLACE_PERSON):
        raise ReleaseFileError(f"{where}.neighbours takes REPLACE_ONE or REPLACE_PERSON")
    reason = getattr(guarantee, "reason", "")
    if not isinstance(reason, str) or not reason.isprintable() or len(reason) > _LONGEST_REASON:
        raise ReleaseFileError(f"{where}.reason takes printable characters on one line")
    return guarantee


def read_promise(given: dict[str, Any], where: str) -> Any:
    """The guarantee that a calibration has to give; it must be one that a fit accepts."""
    target = read_guarantee(given, where)
    if target.is_private:
        with named(where):
            mechanisms.read_target(target, 0.0, neighbours=target.neighbours)
    return target


def require_standing(guarantee: privacy.Guarantee, target: privacy.Guarantee) -> None:
    """Refuse a guarantee that does not follow from the target of a calibration.

    It is the target itself, one that a pure target implies, or void with the reason.
    """
    if target.is_private and not guarantee.is_private:
        if not str(guarantee).startswith("void: "):
            raise ReleaseFileError("guarantee.reason takes 'void: ' and why, next to noise")
    elif guarantee != target and not _is_implied(guarantee, target):
        raise ReleaseFileError(f"guarantee is {guarantee}, and the noise was made for {target}")


def _is_implied(guarantee: privacy.Guarantee, target: privacy.Guarantee) -> bool:
    if guarantee.neighbours is not target.neighbours:
        return False
    match guarantee, target:
        case privacy.ApproxDP(epsilon=epsilon), privacy.PureDP():
            return epsilon == target.epsilon
        case privacy.ZCDP(rho=rho), privacy.PureDP():
            return math.isclose(privacy.pure_within(rho), target.epsilon, rel_tol=CLOSE)
    return False


def charge_entry(entry: Entry | None) -> dict[str, Any] | None:
    """A charge as an entry, with a receipt of each ledger on disk."""
    if entry is None:
        return None
    return {**entry_to_json(entry), "receipts": [asdict(one) for one in entry.receipts]}


def read_charge(
    given: dict[str, Any] | None,
    guarantee: privacy.Guarantee,
    events: tuple[privacy.Event, ...],
    spec: Any = None,
) -> Entry | None:
    """The charge for a release with this guarantee and these events; None without one."""
    if given is None:
        return None
    if not guarantee.is_private:
        raise ReleaseFileError("ledger takes null next to a release without a guarantee")
    rest = {name: value for name, value in given.items() if name != "receipts"}
    with named("ledger"):
        stated = entry_from_json(rest)
        places = read_entry(given.get("receipts"), list[ReceiptEntry], "ledger.receipts")
        receipts = tuple(Receipt(one.ledger, one.dataset, one.row, one.head) for one in places)
        person = spec and spec.formula.person and spec.formula.person.column
        if spec is not None and stated.person not in (None, person):
            raise ReleaseFileError("ledger.person takes the column of person(...) in the formula")
        if stated.guarantee != guarantee:
            raise ReleaseFileError(f"ledger.guarantee takes {guarantee}")
        return replace(stated, events=events if stated.events else (), receipts=receipts)


# -- the document ----------------------------------------------------------------------------


class Document(FileEntry, Generic[CallType, ReleasedType], frozen=True):
    """A differentially private release without a row of the data.

    It contains no number computed from records, except those with noise that the guarantee covers.
    `privatelr.load` checks more than a schema can: it plans the columns and calibrates the noise
    again from the call, and compares what follows with the file.

    Attributes
    ----------
    version
        Of the format. No other version is read before version 1.0 of privatelr.
    kind
        What was released.
    notice
        What a person should know first; it begins with NOT PRIVATE if there is no guarantee.
    written_by
        Versions of the programs that wrote the file, as they state them.
    guarantee
        The guarantee of all released numbers, and of all that is computed from them.
    randomness
        The source of the noise; a seed makes the guarantee void.
    ledger
        Null if no ledger was charged.
    call
        The public arguments, from which everything but the released numbers follows.
    released
        What was computed from records, and is covered by the guarantee.
    derived
        What follows from the other entries, for readers: coefficients in the units of the columns,
        and the laws of the noise.
    sha256
        SHA-256 of the JSON of all other entries, with sorted keys, without white space,
        in ASCII, with numbers as in the file.
    """

    format: Literal["privatelr release"]
    version: Literal[9]
    kind: Literal["fit", "selection", "roc", "choice", "bounds", "levels"]
    notice: Annotated[str, Meta(pattern="^(covered by |NOT PRIVATE: )")]
    written_by: Annotated[dict[Phrase, Phrase], Meta(max_length=100)]
    guarantee: GuaranteeEntry
    randomness: Literal["operating system", "seed", "no noise"]
    ledger: dict[str, Any] | None
    call: CallType
    released: ReleasedType
    derived: dict[str, Any]
    sha256: str

    def __post_init__(self) -> None:
        if not {"privatelr", "python"} <= self.written_by.keys():
            raise ValueError("written_by takes the entries 'privatelr' and 'python'")
        for name, version in self.written_by.items():
            require_printable(name, "a name in written_by")
            require_printable(version, "a version in written_by")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of release.

    Attributes
    ----------
    types
        The classes of its results.
    call, released
        The entries of its arguments and of its numbers.
    parts
        Takes a result; returns its call, its numbers, and what follows from both.
    restore
        Takes a document; returns the result, calibrated again.
    guarantee
        Takes a result; returns the guarantee of all that is in its file.
    own_guarantee
        Takes a result; returns the guarantee of its own noise.
    checked
        What reading the file of an answer verifies, besides the law of its noise.
    stated
        What the writer of an answer states, besides how its numbers were computed.
    objectives
        Reads what stands in place of a loss in these fits, by its name.
    """

    types: Any
    call: Any
    released: Any
    parts: Callable[[Any], Parts]
    restore: Callable[[Any], Any]
    guarantee: Callable[[Any], Any] = attrgetter("guarantee")
    own_guarantee: Callable[[Any], Any] = attrgetter("guarantee")
    checked: str = ""
    stated: tuple[str, ...] = ()
    objectives: Mapping[str, Callable[[LossEntry], Any]] = field(default_factory=dict)


# -- values ----------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """A public value as JSON has it: records as objects, arrays as lists, no infinite number."""
    if isinstance(value, privacy.Event | privacy.NonPrivate):
        return privacy.event_to_json(value)  # type: ignore[arg-type]
    if isinstance(value, Loss):
        return {"name": value.name, **value.parameters} if value.parameters else value.name
    if isinstance(value, np.ndarray) and np.isfinite(value).all():
        return value.tolist()
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if is_dataclass(value):
        numbers = {one.name: plain(getattr(value, one.name)) for one in fields(value)}
        return {"kind": type(value).__name__, **numbers}
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, str | bool | int):
        return value
    raise ReleaseFileError(
        f"a level of type {type(value).__name__} has no place in a release file; declare "
        "levels= of texts, numbers or booleans"
    )


def written(kind: type[FileEntry], *sources: Any, **given: Any) -> dict[str, Any]:
    """An entry as JSON has it: given values, and all others from the first source with them."""
    config, found = kind.__struct_config__, {}
    if config.tag_field is not None:
        found[config.tag_field] = config.tag
    names = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    for name, spelled in names:
        if name not in given:
            given[name] = next(getattr(source, name) for source in sources if hasattr(source, name))
        if given[name] is not UNSET:
            found[spelled] = plain(given[name])
    return found


def picked(names: Iterable[str], *sources: Any) -> dict[str, Any]:
    """Public values by name, each of the first source that has one."""
    found = {name: [s for s in sources if hasattr(s, name)] for name in names}
    return {name: plain(getattr(having[0], name)) for name, having in found.items() if having}


def read_loss(entry: LossEntry) -> Loss:
    """The loss of an entry."""
    given: dict[str, Any] = {"name": entry} if isinstance(entry, str) else {"name": "", **entry}
    with named("call.loss"):
        return find_loss(**given)


def read_numbers(given: list[float], size: int, where: str, grid: float = 0.0) -> FloatArray:
    """Released numbers, which are multiples of a grid.

    Raises
    ------
    ReleaseFileError
        Part of a sentence.
    """
    if len(given) != size:
        raise ReleaseFileError(f"{where} takes {size} numbers")
    values = np.array(given, dtype=np.float64)
    if grid and np.any(np.fmod(values, grid)):
        raise ReleaseFileError(f"{where} takes multiples of the grid {grid:g}")
    return values
