"""``python -m kafkalite``: hands its words to the binary and exits with its code.

Nothing else is imported: what stands between the start of the process and its
first answer is Python's own start and the broker's.
"""

from __future__ import annotations

import sys

from ._native import main as run


def main() -> None:
    """Run the verb on the command line; ``serve`` returns when the broker stopped.

    Raises:
        SystemExit: Always, with 0 (done), 1 (refused), 2 (usage or a bad
            configuration) or 5 (not found).
    """
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
