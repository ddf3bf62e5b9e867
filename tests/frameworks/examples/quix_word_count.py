"""Quix Streams: counts words, with state that is kept in a changelog topic."""

import sys

from quixstreams import Application
from quixstreams.state import State

app = Application(
    broker_address=sys.argv[1],
    consumer_group="quix-word-count",
    auto_offset_reset="earliest",
    processing_guarantee="at-least-once",
    state_dir=sys.argv[2],
)
words = app.topic("quix-words", key_serializer="str", value_serializer="str",
                  key_deserializer="str", value_deserializer="str")  # fmt: skip
counts = app.topic("quix-counts", value_serializer="json")

with app.get_producer() as producer:
    for word in ["to", "be", "or", "not", "to", "be"]:
        record = words.serialize(key=word, value=word)
        producer.produce(words.name, key=record.key, value=record.value)


def count(word: str, state: State) -> dict[str, object]:
    seen = state.get("seen", default=0) + 1
    state.set("seen", seen)
    return {"word": word, "seen": seen}


app.dataframe(words).apply(count, stateful=True).to_topic(counts)
for row in app.run(count=6, timeout=30, collect=True):
    print(row["word"], row["seen"])
