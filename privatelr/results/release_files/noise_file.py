"""Restoring laws of noise from the entries of a file."""

from __future__ import annotations

from privatelr.errors import ReleaseFileError
from privatelr.privacy import noise
from privatelr.results.release_files import calibration_entries as entries
from privatelr.types import Block


def read_blocks(listed: list[entries.BlockEntry]) -> tuple[Block, ...]:
    """The blocks of columns that entries describe."""
    return tuple(Block(b.size, b.bound, "l2" if b.norm == "l2" else "l1") for b in listed)


def read_law(
    entry: entries.LawEntry, where: str, dimension: int, blocks: tuple[Block, ...] = ()
) -> noise.NoiseLaw:
    """A noise law on vectors of this dimension; its blocks must be those of the calibration."""
    match entry:
        case entries.BlockLaplaceEntry():
            if not blocks or read_blocks(entry.blocks) != blocks:
                raise ReleaseFileError(f"{where}.blocks differ from calibration.blocks")
            return noise.BlockLaplace(blocks, entry.rate)
        case entries.SphericalEntry():
            return noise.SphericalLaplace(dimension, entry.rate)
        case entries.GaussianEntry():
            return noise.GaussianNoise(dimension, entry.sd)
        case entries.CopiedEntry(copies=copies):
            one, rest = read_law(entry.each, where, dimension // copies, blocks), dimension % copies
            if rest or not isinstance(one, noise.SphericalLaplace | noise.BlockLaplace):
                raise ReleaseFileError(f"{where}.copies takes the number of classes")
            return noise.CopiedNoise(one, copies)
    return noise.NoNoise(dimension)
