"""A consumer without deserializers hands out bytes."""

import kafkalite as kl


def first_value(servers: str) -> bytes | None:
    with kl.Consumer("orders", bootstrap_servers=servers) as consumer:
        record = consumer.poll(timeout=5)
        return None if record is None else record.value


def keys(consumer: kl.Consumer) -> list[bytes | None]:
    return [record.key for record in consumer.consume(10, timeout=1)]
