"""Runs command lines one after the other, each as a process would: for ``test_hostile_words``.

Reads a JSON list of lists of words from stdin. For each it writes a line before it begins, so that
the reader knows which one did not end. Then it writes a line with the outcome.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import tempfile
import traceback
import warnings

from kafkalite.cli.program import run


def main() -> None:
    """Run all that stdin tells; argument 1 is how many seconds one may take."""
    limit_s = int(sys.argv[1])
    given = json.load(sys.stdin)
    # The streams themselves are led away: what the binary writes counts as well.
    answers = os.fdopen(os.dup(1), "w")
    warnings.simplefilter("error")
    for words in given:
        print(json.dumps({"begins": words}), file=answers, flush=True)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            sys.stdin = io.StringIO()
            sys.stdout, sys.stderr = (open(fd, "w", closefd=False) for fd in (1, 2))  # noqa: SIM115
            trace = None
            signal.alarm(limit_s)
            try:
                code = int(run(words))
            except BaseException:  # noqa: BLE001
                code, trace = -1, traceback.format_exc()
            signal.alarm(0)
            sys.stderr.flush()
            err.seek(0)
            told = err.read().decode(errors="replace")
        answer = {"words": words, "code": code, "stderr": told, "trace": trace}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
