"""Attacks that start at the front: formulas, tables and ledgers as users write them."""
