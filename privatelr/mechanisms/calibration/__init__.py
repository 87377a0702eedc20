"""Every privacy formula of the package; a function in here takes public facts, never data."""
