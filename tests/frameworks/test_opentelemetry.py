"""OpenTelemetry's instrumentation of confluent-kafka: the context goes through the broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest
from opentelemetry.instrumentation.confluent_kafka import ConfluentKafkaInstrumentor
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.harness.brokers import Broker

Unique = Callable[[str], str]


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    """confluent-kafka instrumented as ``opentelemetry-instrument`` does, and the spans it ends."""
    exporter = InMemorySpanExporter()
    tracing = TracerProvider()
    tracing.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentor = ConfluentKafkaInstrumentor()
    instrumentor.instrument(tracer_provider=tracing)
    yield exporter
    instrumentor.uninstrument()


def produce(broker: Broker, topic: str, count: int) -> None:
    """Produce numbers with a header of our own."""
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0, headers=[("ours", b"1")])
    assert producer.flush(30) == 0


def subscribed(broker: Broker, topic: str) -> Any:
    """An instrumented consumer from the beginning."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    return consumer


def named(spans: InMemorySpanExporter, end: str) -> list[ReadableSpan]:
    """The ended spans whose name ends so."""
    return [span for span in spans.get_finished_spans() if span.name.endswith(end)]


def test_what_polls_a_record_is_linked_to_what_sent_it(
    broker: Broker, unique: Unique, spans: InMemorySpanExporter
) -> None:
    topic = unique("otel-poll")
    produce(broker, topic, 3)
    consumer, read = subscribed(broker, topic), []
    while len(read) < 3:
        record = consumer.poll(30)
        assert record is not None
        assert record.error() is None
        read.append(record)
    consumer.close()
    sent, processed = named(spans, " send"), named(spans, " process")
    assert [record.headers()[0] for record in read] == [("ours", b"1")] * 3
    assert [span.links[0].context.span_id for span in processed] == [
        span.context.span_id for span in sent
    ]
    assert [span.attributes["messaging.message.id"] for span in processed] == [
        f"{topic}.{record.partition()}.{record.offset()}" for record in read
    ]


def test_a_consumed_batch_is_linked_to_all_that_sent_it(
    broker: Broker, unique: Unique, spans: InMemorySpanExporter
) -> None:
    topic = unique("otel-consume")
    produce(broker, topic, 20)
    consumer, read = subscribed(broker, topic), []
    while len(read) < 20:
        read += consumer.consume(20, timeout=10)
    consumer.close()
    sent = {span.context.span_id for span in named(spans, " send")}
    linked = {link.context.span_id for span in named(spans, " process") for link in span.links}
    assert linked == sent
