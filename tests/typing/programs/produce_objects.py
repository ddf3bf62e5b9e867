"""A serializer says what values may be."""

import json
from typing import TypedDict

import kafkalite as kl


class Order(TypedDict):
    number: int


def as_json(order: Order) -> bytes:
    return json.dumps(order).encode()


def send(servers: str, orders: list[Order]) -> list[kl.DeliveredRange]:
    producer: kl.Producer[str, Order]
    with kl.Producer(
        bootstrap_servers=servers, key_serializer=str.encode, value_serializer=as_json
    ) as producer:
        producer.produce("orders", orders[0], key="k")
        return producer.send_batch("orders", orders).result(timeout=5)


def send_anything(servers: str, value: object) -> None:
    with kl.Producer(bootstrap_servers=servers, value_serializer=kl.JsonSerializer()) as producer:
        producer.send("orders", value).result()
