//! Keys that other clients know and this one does not have: what to say about each.

/// What a foreign key means for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// Kafka's; without it the client would not do what was asked for.
    NotBuilt(&'static str),
    /// Kafka's; nothing here depends on it. It is accepted, with a warning.
    Ignored,
    /// Another library's name for one of ours.
    Called(&'static str),
    /// Another library's, for what is done otherwise here: how.
    Otherwise(&'static str),
}

/// What is known about `name`, a name with dots that is not in our table.
pub fn foreign(name: &str) -> Option<Foreign> {
    let starts = |prefix: &str| name.starts_with(prefix);
    if starts("sasl.") || starts("ssl.") {
        return Some(Foreign::NotBuilt("connections are PLAINTEXT only"));
    }
    if starts("transaction") {
        return Some(Foreign::NotBuilt("transactions are not supported"));
    }
    if IGNORED.contains(&name) || starts("metrics.") || starts("metric.") {
        return Some(Foreign::Ignored);
    }
    if let Some((_, how)) = OTHER_WAYS.iter().find(|(other, _)| *other == name) {
        return Some(Foreign::Otherwise(how));
    }
    OTHER_NAMES.iter().find(|(other, _)| *other == name).map(|(_, ours)| Foreign::Called(ours))
}

/// Kafka's, but of no consequence here.
const IGNORED: &[&str] = &[
    "auto.include.jmx.reporter",
    "config.providers",
    "enable.metrics.push",
    "group.remote.assignor",
    "interceptor.classes",
    "key.deserializer",
    "key.serializer",
    "metadata.recovery.rebootstrap.trigger.ms",
    "security.providers",
    "share.acknowledgement.mode",
    "value.deserializer",
    "value.serializer",
];

/// What librdkafka and kafka-python have a key for, and this client a call or nothing.
const OTHER_WAYS: &[(&str, &str)] = &[
    ("api.version", "leave it out: brokers are asked which versions they speak."),
    ("api.version.request", "leave it out: brokers are asked which versions they speak."),
    ("consumer.timeout.ms", "batches(timeout=1) ends when nothing comes for so many seconds."),
    ("enable.auto.offset.store", "leave it out: what an earlier call handed out is committed."),
    ("enable.partition.eof", "leave it out: position() and end_offsets() tell the end."),
    ("error.cb", "leave it out: failures are raised by the calls that meet them."),
    ("on.commit", "leave it out: commit_async(callback=...) takes one."),
    ("on.delivery", "leave it out: produce(..., on_delivery=...) takes one."),
    ("statistics.interval.ms", "leave it out: Producer.metrics() tells when it is asked."),
    ("stats.cb", "leave it out: Producer.metrics() tells when it is asked."),
];

/// Names of librdkafka, which confluent-kafka uses, and of kafka-python.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("compression.codec", "compression.type"),
    ("fetch.message.max.bytes", "max.partition.fetch.bytes"),
    ("fetch.wait.max.ms", "fetch.max.wait.ms"),
    ("max.in.flight", "max.in.flight.requests.per.connection"),
    ("message.max.bytes", "max.request.size"),
    ("message.send.max.retries", "retries"),
    ("message.timeout.ms", "delivery.timeout.ms"),
    ("metadata.broker.list", "bootstrap.servers"),
    ("queue.buffering.max.kbytes", "buffer.memory"),
    ("queue.buffering.max.messages", "buffer.memory"),
    ("queue.buffering.max.ms", "linger.ms"),
    ("request.required.acks", "acks"),
    ("socket.timeout.ms", "request.timeout.ms"),
    ("topic.metadata.refresh.interval.ms", "metadata.max.age.ms"),
];
