"""Private answers about a fit: releases of their own, about records with outcomes."""
