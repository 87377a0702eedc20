"""What the user holds: formula, frame and public schema become bounded rows."""
