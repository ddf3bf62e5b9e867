"""A deserializer says what values are."""

import json
from dataclasses import dataclass

import kafkalite as kl


@dataclass
class Order:
    number: int


def order_of(data: bytes) -> Order:
    return Order(json.loads(data)["number"])


def numbers(servers: str) -> list[int]:
    with kl.Consumer(
        ["orders", "returns"], bootstrap_servers=servers, value_deserializer=order_of
    ) as consumer:
        return [record.value.number for record in consumer.consume(10) if record.value]


class Reader:
    def __init__(self, servers: str) -> None:
        self.consumer: kl.Consumer[str, Order] = kl.Consumer(
            "orders",
            bootstrap_servers=servers,
            key_deserializer=bytes.decode,
            value_deserializer=order_of,
        )

    def next_key(self) -> str | None:
        record = self.consumer.poll(timeout=1)
        return record.key if record else None
