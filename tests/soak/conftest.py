"""Tests that take long have a longer time limit."""

from __future__ import annotations

import os

# Of one test with its fixtures, in seconds.
os.environ["PYTEST_TIMEOUT"] = "3600"
