"""What is promised: guarantees, noise, randomness; no data and no formula."""
