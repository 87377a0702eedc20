"""Where promise meets data: calibrate from public facts, draw once, release."""
