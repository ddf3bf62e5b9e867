"""Mistakes that a type checker finds: each line with a comment has one error."""

import json

import kafkalite as kl


def order_of(data: bytes) -> dict[str, int]:
    return dict(json.loads(data))


producer = kl.Producer(bootstrap_servers="localhost:9092")
producer.send("orders", 5)  # error
typed = kl.Producer(bootstrap_servers="localhost:9092", value_serializer=str.encode)
typed.send("orders", b"bytes")  # error
consumer = kl.Consumer("orders", value_deserializer=order_of)
for record in consumer:
    record.value.keys()  # error
    text: str | None = record.key  # error
kl.Consumer(5)  # error
