"""Tables as their users hold them: named columns, and what is public about them."""
