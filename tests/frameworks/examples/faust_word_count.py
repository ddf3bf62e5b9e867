"""Faust: counts words in a table that is kept in a changelog topic.

``python faust_word_count.py HOST:PORT DIRECTORY`` runs a worker; this one ends itself, as if by
Ctrl-C, when it has counted six words.
"""

import signal
import sys

import faust

app = faust.App(
    "faust-word-count",
    broker=f"kafka://{sys.argv[1]}",
    datadir=sys.argv[2],
    store="memory://",
    topic_partitions=2,
    topic_replication_factor=1,
    web_enabled=False,
)
words = app.topic("faust-words", key_type=str, value_type=str, internal=True, partitions=2)
counts = app.Table("counts", default=int, partitions=2)
TEXT = ["to", "be", "or", "not", "to", "be"]


@app.agent(words)
async def count(stream: faust.StreamT[str]) -> None:
    seen = 0
    async for word in stream:
        counts[word] += 1
        print(word, counts[word], flush=True)
        seen += 1
        if seen == len(TEXT):
            signal.raise_signal(signal.SIGINT)


@app.task
async def send() -> None:
    for word in TEXT:
        await words.send(key=word, value=word)


if __name__ == "__main__":
    faust.Worker(app, loglevel="WARNING", redirect_stdouts=False).execute_from_commandline()
