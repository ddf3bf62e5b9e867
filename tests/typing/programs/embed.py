"""A broker in the process, and in a container's place."""

import kafkalite as kl
from kafkalite.testcontainers import KafkaContainer


def is_large(record: kl.Record[bytes, bytes]) -> bool:
    return len(record.value or b"") > 10


def run() -> list[bytes | None]:
    with kl.Broker(topics={"orders": 3}, config={"num.partitions": 4}) as broker:
        found = broker.expect("orders", 1, timeout=5, where=is_large)
        return [record.value for record in found]


def contain() -> str:
    with KafkaContainer("confluentinc/cp-kafka:7.6.0").with_kraft() as kafka:
        return kafka.get_bootstrap_server()
