"""Noise laws, and exact draws from them."""
