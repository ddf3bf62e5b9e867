"""``python -m kafkalite``: ``serve`` goes to the binary, everything else to ``cli``.

For ``serve`` nothing else is imported: what stands between the start of the process and
its first answer is Python's own start and the broker's.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command on the command line; ``serve`` returns when the broker stopped.

    Raises:
        SystemExit: Always. 0 done, 1 refused (also: directory locked, port taken), 2 usage
            or a bad configuration. 3 unreachable, 4 partly, 5 not found, 130 interrupted, 129
            and 143 ended by SIGHUP and SIGTERM.
    """
    try:
        _run(sys.argv[1:])
    except KeyboardInterrupt:
        # Ctrl-C while modules are imported, or while the interpreter ends.
        sys.exit(130)


def _run(words: list[str]) -> None:
    if words[:1] == ["serve"]:
        from ._native import serve

        try:
            sys.exit(serve(words[1:]))
        except UnicodeEncodeError as error:
            print(f"error: {error.object!a} is not UTF-8", file=sys.stderr)
            print("hint: give flags, names and paths as text in UTF-8.", file=sys.stderr)
            sys.exit(2)
    if words in (["--version"], ["-V"]):
        from ._native import serve

        # It knows the version, and what to do about a closed pipe or a full disk.
        sys.exit(serve(words))
    from .cli import main as command_line

    command_line()


if __name__ == "__main__":
    main()
