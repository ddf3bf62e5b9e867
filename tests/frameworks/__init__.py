"""Frameworks that know nothing of kafkalite, on its broker."""
