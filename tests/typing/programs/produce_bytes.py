"""A producer without serializers takes bytes and text."""

import kafkalite as kl


def send(servers: str) -> int:
    with kl.Producer(bootstrap_servers=servers, linger_ms=5, acks="all") as producer:
        producer.send("orders", "text", key=b"k", headers={"trace": b"1"})
        producer.send("orders", None)
        where: kl.RecordMetadata = producer.send("orders", b"bytes").result(timeout=5)
        return where.offset
