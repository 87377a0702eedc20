"""What sampled outputs show: laws of releases, and lower bounds on the loss."""
