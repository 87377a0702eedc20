"""Audits by sampling: tests of the laws of releases, and lower bounds on the privacy loss."""
