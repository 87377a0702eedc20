"""Printed pages: summary, card and notes, as text, HTML and Markdown."""
