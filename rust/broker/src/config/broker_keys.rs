//! The table, part one: who the broker is, its sockets, threads, queues and coordinators.

use super::key::DefaultValue::{Machine, Null, Text};
use super::key::Valid::{Any, AtLeast, Between, NotEmpty, OneOf};
use super::key::{ConfigKey, Dynamic, Importance, Kind, keys};

/// Cores this process may use; a container's quota counts.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn network_threads() -> String {
    (cores().saturating_sub(1)).clamp(1, 3).to_string()
}

fn io_threads() -> String {
    cores().max(2).to_string()
}

/// Who the broker is and where it is reached.
pub const IDENTITY: &[ConfigKey] = keys! {
    High ReadOnly Int "node.id" = Text("1"), AtLeast(0),
        "This node's id, unique in its cluster.";
    High ReadOnly Int "broker.id" = Text("-1"), Any,
        "Another name for node.id; -1 leaves it to node.id.";
    Medium ReadOnly String "broker.rack" = Null, Any,
        "The rack this broker stands in, as clients are told.";
    High ReadOnly List "listeners" = Text("PLAINTEXT://127.0.0.1:9092"), NotEmpty,
        "Where to listen: NAME://HOST:PORT, comma-separated. An empty host is every interface.";
    High ReadOnly List "advertised.listeners" = Null, Any,
        "Where clients are sent. Unset: the local address of the socket they came in on.";
    High ReadOnly List "controller.listener.names" = Text(""), Any,
        "Listeners that belong to controllers; the broker does not bind them.";
    Medium ReadOnly String "inter.broker.listener.name" = Null, Any,
        "The listener for brokers; beside others, its requests overtake those of clients.";
    Low ReadOnly String "listener.security.protocol.map"
        = Text("SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"), Any,
        "The security protocol of each listener name. PLAINTEXT is served.";
    High ReadOnly List "log.dirs" = Null, Any,
        "Directories that hold the logs. Unset: log.dir.";
    High ReadOnly List "log.dir" = Text("kafkalite-data"), NotEmpty,
        "The directory that holds the logs, if log.dirs is not set.";
};

/// Sockets, threads, and the queues between them.
pub const NETWORK: &[ConfigKey] = keys! {
    High ClusterWide Int "num.network.threads" = Machine(network_threads), AtLeast(1),
        "Threads that read and write sockets. By default one core fewer than there are, at most 3.";
    High ClusterWide Int "num.io.threads" = Machine(io_threads), AtLeast(1),
        "Threads that run requests. By default one for each core, at least 2.";
    High ReadOnly Int "queued.max.requests" = Text("500"), AtLeast(1),
        "Requests that may wait for an I/O thread before sockets are no longer read.";
    Medium ReadOnly Long "queued.max.request.bytes" = Text("67108864"), Any,
        "Bytes of requests that may wait for an I/O thread; -1 for no bound.";
    High ReadOnly Int "socket.send.buffer.bytes" = Text("-1"), AtLeast(-1),
        "The socket send buffer; -1 lets the kernel size it.";
    High ReadOnly Int "socket.receive.buffer.bytes" = Text("-1"), AtLeast(-1),
        "The socket receive buffer; -1 lets the kernel size it.";
    High ReadOnly Int "socket.request.max.bytes" = Text("104857600"), AtLeast(1),
        "The largest request; a longer one ends its connection.";
    Medium ReadOnly Int "socket.listen.backlog.size" = Text("50"), AtLeast(1),
        "Connections the kernel holds for us until they are accepted.";
    Medium ClusterWide Int "max.connections" = Text("2147483647"), AtLeast(0),
        "Connections at one time.";
    Medium ClusterWide Int "max.connections.per.ip" = Text("2147483647"), AtLeast(0),
        "Connections at one time from one address.";
    Medium ReadOnly Long "connections.max.idle.ms" = Text("600000"), Any,
        "A connection on which nothing is asked for so long is closed.";
    Medium ReadOnly Int "max.request.partition.size.limit" = Text("2000"), AtLeast(1),
        "Partitions one DescribeTopicPartitions answer lists.";
    Medium ReadOnly Int "max.incremental.fetch.session.cache.slots" = Text("1000"), AtLeast(0),
        "Incremental fetch sessions that are kept.";
    Medium ReadOnly Int "fetch.max.bytes" = Text("57671680"), AtLeast(1024),
        "The most a fetch is answered with, beyond its first batch.";
};

/// Topics, replicas and producers.
pub const TOPICS: &[ConfigKey] = keys! {
    High ReadOnly Boolean "auto.create.topics.enable" = Text("true"), Any,
        "Create a topic when a client asks for one that does not exist.";
    High ReadOnly Boolean "delete.topic.enable" = Text("true"), Any,
        "Let clients delete topics.";
    Medium ReadOnly Int "num.partitions" = Text("1"), AtLeast(1),
        "Partitions of a topic that is created without a number.";
    Medium ReadOnly Int "default.replication.factor" = Text("1"), Any,
        "Replicas of a topic that is created without a number.";
    High ClusterWide Int "min.insync.replicas" = Text("1"), AtLeast(1),
        "In-sync replicas without which acks=all is refused. Stored at a cluster's first start.";
    High ClusterWide Boolean "unclean.leader.election.enable" = Text("false"), Any,
        "Let a replica that is not in sync lead when no other is left, and lose records.";
    High ReadOnly Long "replica.high.watermark.checkpoint.interval.ms" = Text("5000"), Any,
        "How often high watermarks are written down.";
    Low ClusterWide Int "producer.id.expiration.ms" = Text("86400000"), AtLeast(1),
        "An idempotent producer that sends nothing for so long is forgotten.";
};

/// The group coordinator and its topic.
pub const GROUPS: &[ConfigKey] = keys! {
    Medium ReadOnly Int "group.min.session.timeout.ms" = Text("6000"), Any,
        "The shortest session timeout a member may ask for.";
    Medium ReadOnly Int "group.max.session.timeout.ms" = Text("1800000"), Any,
        "The longest session timeout a member may ask for.";
    Medium ReadOnly Int "group.initial.rebalance.delay.ms" = Text("3000"), Any,
        "How long an empty group waits for more members before its first rebalance.";
    Medium ReadOnly Int "group.max.size" = Text("2147483647"), AtLeast(1),
        "Members a group may have.";
    High ReadOnly Int "offset.metadata.max.bytes" = Text("4096"), Any,
        "The most text a commit may carry beside its offset.";
    High ReadOnly Int "offsets.commit.timeout.ms" = Text("5000"), AtLeast(1),
        "How long a commit waits for the offsets topic.";
    High ReadOnly Int "offsets.load.buffer.size" = Text("5242880"), AtLeast(1),
        "How much of the offsets topic is read at once when it is loaded.";
    High ReadOnly Int "offsets.retention.minutes" = Text("10080"), AtLeast(1),
        "A group without members for so long loses its offsets.";
    High ReadOnly Long "offsets.retention.check.interval.ms" = Text("600000"), AtLeast(1),
        "How often such offsets are looked for.";
    High ReadOnly Int "offsets.topic.num.partitions" = Text("50"), AtLeast(1),
        "Partitions of the offsets topic; fixed once it exists.";
    High ReadOnly Short "offsets.topic.replication.factor" = Text("1"), AtLeast(1),
        "Replicas of the offsets topic. Kafka's 3 would hang a single node, so ours is 1.";
    High ReadOnly Int "offsets.topic.segment.bytes" = Text("104857600"), AtLeast(1),
        "Segment size of the offsets topic, small so that compaction can follow.";
    High ReadOnly Int "offsets.topic.compression.codec" = Text("0"), Between(0, 4),
        "Codec of batches in the offsets topic: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.";
};

/// Keys that Kafka does not have.
pub const OWN: &[ConfigKey] = keys! {
    Medium ReadOnly String "kafkalite.request.inline" = Text("auto"),
        OneOf(&["auto", "never", "always"]),
        "Run cheap requests on the network thread when nothing waits before them.";
    Low ReadOnly Int "kafkalite.request.inline.max.bytes" = Text("32768"), AtLeast(0),
        "Longer requests are queued in any case.";
    Medium ClusterWide String "kafkalite.batch.validation" = Text("strict"),
        OneOf(&["strict", "relaxed"]),
        "strict: look into every compressed batch; relaxed: believe its header.";
    Low ReadOnly Int "kafkalite.fetch.sendfile.min.bytes" = Text("16384"), AtLeast(0),
        "File ranges from this size on are sent with sendfile, shorter ones are copied.";
    Medium ReadOnly Long "kafkalite.memory.budget.bytes" = Text("33554432"), AtLeast(1),
        "Memory for large requests that are half received; as much for each kind that waits.";
    Medium ReadOnly Long "kafkalite.group.memory.bytes" = Text("268435456"), AtLeast(1),
        "Memory for what members of all groups join with and are assigned; more is refused.";
    Medium ReadOnly Int "kafkalite.frame.deadline.ms" = Text("30000"), AtLeast(1),
        "How long a request may stay half-sent, beside a second for each pace's worth of bytes.";
    Low ReadOnly Int "kafkalite.frame.min.bytes.per.second" = Text("65536"), AtLeast(1),
        "The pace at which a large request has to arrive to gain time.";
    Low ReadOnly Int "kafkalite.cold.read.threads" = Text("2"), Between(1, 64),
        "Threads that read what has left the page cache.";
    Low ReadOnly Long "kafkalite.cold.read.max.bytes" = Text("4194304"), AtLeast(65_536),
        "Cold bytes read ahead for one consumer at a time.";
    Medium ReadOnly Long "kafkalite.cold.read.max.bytes.per.second" = Text("134217728"), AtLeast(0),
        "Cold bytes read in a second, for all consumers, while somebody produces; 0 is no limit.";
    Medium ReadOnly Int "kafkalite.open.segments.max" = Text("4096"), AtLeast(16),
        "Segments kept open, at most half of the files that may be; those least used are closed.";
    Medium ReadOnly Int "kafkalite.admin.port" = Text("-1"), Between(-1, 65_535),
        "Port of metrics and health; 0 lets the system choose, -1 is off. serve sets 9644.";
    Medium ReadOnly String "kafkalite.admin.host" = Text("127.0.0.1"), NotEmpty,
        "Address that metrics and health listen on.";
    Low ReadOnly String "kafkalite.cluster.id" = Null, NotEmpty,
        "The cluster id of a data directory that is new. Unset: a random one.";
    Low ReadOnly Boolean "kafkalite.disk.sync" = Text("true"), Any,
        "false: never wait for the disk, for data that goes with the broker. A power cut loses it.";
    Low ReadOnly Int "kafkalite.recent.requests" = Text("0"), Between(0, 65_536),
        "How many of the last requests are remembered, with the time each took in every stage.";
    Low ReadOnly Int "kafkalite.stop.timeout.ms" = Text("5000"), AtLeast(0),
        "How long a stopping broker lets answers leave before it closes connections.";
};
