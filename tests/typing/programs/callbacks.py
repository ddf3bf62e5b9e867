"""Callbacks of a producer."""

import kafkalite as kl


def delivered(error: kl.KafkaliteError | None, where: kl.RecordMetadata | None) -> None:
    print(error.hint if error else where.offset if where else None)


def send(producer: kl.Producer) -> kl.Delivery:
    producer.produce("orders", b"v", on_delivery=delivered)
    delivery = producer.send("orders", b"v")
    delivery.add_done_callback(lambda done: print(done.exception()))
    return delivery
