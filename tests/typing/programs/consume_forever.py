"""Records one by one, and what a loop does with them."""

import kafkalite as kl


def handle(record: kl.Record[bytes, bytes]) -> int:
    sizes = [len(value or b"") for _, value in record.headers]
    return len(record.value or b"") + sum(sizes)


def run(servers: str) -> None:
    with kl.Consumer("orders", group_id="g", bootstrap_servers=servers) as consumer:
        for record in consumer:
            handle(record)
            consumer.commit(record)
