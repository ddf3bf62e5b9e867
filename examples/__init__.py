"""Programs to run and to read."""
