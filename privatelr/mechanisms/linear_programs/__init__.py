"""Linear programs by multiplicative weights over their constraints."""
