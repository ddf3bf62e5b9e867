"""OpenTelemetry's instrumentation of confluent-kafka: a trace goes through the broker."""

import sys

from confluent_kafka import Consumer, Producer
from opentelemetry.instrumentation.confluent_kafka import ConfluentKafkaInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter = InMemorySpanExporter()
tracing = TracerProvider()
tracing.add_span_processor(SimpleSpanProcessor(exporter))
instrument = ConfluentKafkaInstrumentor()

producer = instrument.instrument_producer(
    Producer({"bootstrap.servers": sys.argv[1]}), tracer_provider=tracing
)
producer.produce("traced", b"hello")
producer.flush(10)

consumer = instrument.instrument_consumer(
    Consumer(
        {"bootstrap.servers": sys.argv[1], "group.id": "tracing", "auto.offset.reset": "earliest"}
    ),
    tracer_provider=tracing,
)
consumer.subscribe(["traced"])
while (record := consumer.poll(1)) is None:
    pass
consumer.close()

sent, *_, processed = exporter.get_finished_spans()
print(sent.name, "->", processed.name)
print(record.headers()[0][0], processed.links[0].context.trace_id == sent.context.trace_id)
