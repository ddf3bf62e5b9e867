"""``python -m tests.conformance.differential`` is the script."""

import sys

from tests.conformance.differential.script import main

sys.exit(main())
