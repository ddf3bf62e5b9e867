//! The table, part one: who the broker is, its sockets, threads, queues and coordinators.

use super::key::DefaultValue::{Machine, Null, Text};
use super::key::Valid::{Any, AtLeast, Between, NotEmpty, OneOf};
use super::key::{ConfigKey, Dynamic, Importance, Kind, keys};
use std::sync::OnceLock;

/// Cores this process may use; a container's quota counts. Asked once: the answer is read from
/// files, and each configuration that is worked out has several defaults that depend on it.
fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
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
        "Id of this node, unique in the cluster.";
    High ReadOnly Int "broker.id" = Text("-1"), Any,
        "Another name of node.id; -1 uses node.id.";
    Medium ReadOnly String "broker.rack" = Null, Any,
        "The rack of this broker. Clients see the name.";
    High ReadOnly List "listeners" = Text("PLAINTEXT://127.0.0.1:9092"), NotEmpty,
        "Addresses to listen on: NAME://HOST:PORT, comma-separated. Empty host: all interfaces.";
    High ReadOnly List "advertised.listeners" = Null, Any,
        "Addresses that clients connect to. Unset: the local address of the client's connection.";
    High ReadOnly List "controller.listener.names" = Text(""), Any,
        "Listeners of controllers; the broker does not bind them.";
    Medium ReadOnly String "inter.broker.listener.name" = Null, Any,
        "Listener for other brokers. Its requests overtake requests on other listeners.";
    Low ReadOnly String "listener.security.protocol.map"
        = Text("SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"), Any,
        "Security protocol of each listener name. Only PLAINTEXT is served.";
    Medium ReadOnly Int "initial.broker.registration.timeout.ms" = Text("60000"), AtLeast(0),
        "Time that a starting broker waits for its cluster to register it; then it gives up.";
    High ReadOnly List "log.dirs" = Null, Any,
        "Directories of the logs. Unset: log.dir.";
    High ReadOnly List "log.dir" = Text("kafkalite-data"), NotEmpty,
        "Directory of the logs, if log.dirs is unset.";
};

/// Sockets, threads, and the queues between them.
pub const NETWORK: &[ConfigKey] = keys! {
    High ClusterWide Int "num.network.threads" = Machine(network_threads), AtLeast(1),
        "Threads that read and write sockets. Default: the number of cores minus one, at most 3.";
    High ClusterWide Int "num.io.threads" = Machine(io_threads), AtLeast(1),
        "Threads that run requests. Default: the number of cores, at least 2.";
    High ReadOnly Int "queued.max.requests" = Text("500"), AtLeast(1),
        "Maximum of requests that wait for an I/O thread. Beyond it, the broker reads no sockets.";
    Medium ReadOnly Long "queued.max.request.bytes" = Text("67108864"), Any,
        "Maximum bytes of requests that wait for an I/O thread; -1 for no limit.";
    High ReadOnly Int "socket.send.buffer.bytes" = Text("-1"), AtLeast(-1),
        "Size of the socket send buffer; -1 lets the kernel choose.";
    High ReadOnly Int "socket.receive.buffer.bytes" = Text("-1"), AtLeast(-1),
        "Size of the socket receive buffer; -1 lets the kernel choose.";
    High ReadOnly Int "socket.request.max.bytes" = Text("104857600"), AtLeast(1),
        "Maximum size of a request. A larger request closes its connection.";
    Medium ReadOnly Int "socket.listen.backlog.size" = Text("50"), AtLeast(1),
        "Maximum of connections that the kernel holds until the broker accepts them.";
    Medium ClusterWide Int "max.connections" = Text("2147483647"), AtLeast(0),
        "Maximum of open connections.";
    Medium ClusterWide Int "max.connections.per.ip" = Text("2147483647"), AtLeast(0),
        "Maximum of open connections from one address.";
    Medium ReadOnly Long "connections.max.idle.ms" = Text("600000"), Any,
        "Idle time after which a connection is closed.";
    Medium ReadOnly Int "max.request.partition.size.limit" = Text("2000"), AtLeast(1),
        "Maximum of partitions in one DescribeTopicPartitions answer.";
    Medium ReadOnly Int "max.incremental.fetch.session.cache.slots" = Text("1000"), AtLeast(0),
        "Maximum of incremental fetch sessions.";
    Low ReadOnly Int "telemetry.max.bytes" = Text("1048576"), AtLeast(1),
        "Maximum size of the metrics in one push of a client, compressed or not.";
    Medium ReadOnly Int "fetch.max.bytes" = Text("57671680"), AtLeast(1024),
        "Maximum size of a fetch answer, beyond its first batch.";
};

/// Topics, replicas and producers.
pub const TOPICS: &[ConfigKey] = keys! {
    High ReadOnly Boolean "auto.create.topics.enable" = Text("true"), Any,
        "Create a topic when a client asks for one that does not exist.";
    High ReadOnly Boolean "delete.topic.enable" = Text("true"), Any,
        "Allow clients to delete topics.";
    Medium ReadOnly Int "num.partitions" = Text("1"), AtLeast(1),
        "Default number of partitions of a new topic.";
    Medium ReadOnly Int "default.replication.factor" = Text("1"), Any,
        "Default number of replicas of a new topic.";
    High ClusterWide Int "min.insync.replicas" = Text("1"), AtLeast(1),
        "Minimum of in-sync replicas for acks=all. Stored at the cluster's first start.";
    High ReadOnly Boolean "auto.leader.rebalance.enable" = Text("true"), Any,
        "Let preferred leaders lead again when they are in sync.";
    High ReadOnly Long "leader.imbalance.check.interval.seconds" = Text("300"), AtLeast(1),
        "Interval between checks whether preferred leaders lead.";
    High ClusterWide Boolean "unclean.leader.election.enable" = Text("false"), Any,
        "Let an out-of-sync replica lead if no other is left. This can lose records.";
    Medium ReadOnly String "replica.selector.class" = Null,
        OneOf(&["org.apache.kafka.common.replica.RackAwareReplicaSelector"]),
        "Set: leaders send consumers with client.rack to an in-sync replica in that rack.";
    High ReadOnly Long "replica.lag.time.max.ms" = Text("30000"), AtLeast(1),
        "Time after which a follower that is not up to date leaves the in-sync replicas.";
    High ReadOnly Int "replica.fetch.wait.max.ms" = Text("500"), AtLeast(0),
        "Maximum wait of a follower's fetch at its leader.";
    High ReadOnly Int "replica.fetch.min.bytes" = Text("1"), Any,
        "Bytes that a follower's fetch waits for, at most replica.fetch.wait.max.ms.";
    Medium ReadOnly Int "replica.fetch.max.bytes" = Text("1048576"), AtLeast(0),
        "Maximum bytes of one partition in a follower's fetch, beyond its first batch.";
    Medium ReadOnly Int "replica.fetch.response.max.bytes" = Text("10485760"), AtLeast(0),
        "Maximum bytes of the answer to a follower's fetch, beyond its first batch.";
    Medium ReadOnly Int "replica.fetch.backoff.ms" = Text("1000"), AtLeast(0),
        "Longest wait of a follower after an error. The first takes 20 ms; then they double.";
    High ReadOnly Int "replica.socket.timeout.ms" = Text("30000"), AtLeast(1),
        "Time that a follower waits for an answer of its leader.";
    Medium ReadOnly Int "broker.heartbeat.interval.ms" = Text("500"), AtLeast(1),
        "Interval between a broker's heartbeats to the controller. Kafka's default is 2000.";
    Medium ReadOnly Int "broker.session.timeout.ms" = Text("3000"), AtLeast(1),
        "Time without a heartbeat after which the controller fences a broker. Kafka: 9000.";
    High ReadOnly Long "replica.high.watermark.checkpoint.interval.ms" = Text("5000"), Any,
        "Interval between checkpoints of high watermarks.";
    Low ClusterWide Int "producer.id.expiration.ms" = Text("86400000"), AtLeast(1),
        "Idle time after which the state of an idempotent producer is deleted.";
};

/// The group coordinator and its topic.
pub const GROUPS: &[ConfigKey] = keys! {
    Medium ReadOnly Int "group.min.session.timeout.ms" = Text("6000"), Any,
        "Minimum session timeout of a member.";
    Medium ReadOnly Int "group.max.session.timeout.ms" = Text("1800000"), Any,
        "Maximum session timeout of a member.";
    Medium ReadOnly Int "group.initial.rebalance.delay.ms" = Text("3000"), Any,
        "Time that a new group waits for more members before its first rebalance.";
    Medium ReadOnly Int "group.max.size" = Text("2147483647"), AtLeast(1),
        "Maximum of members in a group.";
    High ReadOnly Int "offset.metadata.max.bytes" = Text("4096"), Any,
        "Maximum length of the metadata of a commit.";
    High ReadOnly Int "offsets.commit.timeout.ms" = Text("5000"), AtLeast(1),
        "Maximum wait of a commit for the offsets topic.";
    High ReadOnly Int "offsets.load.buffer.size" = Text("5242880"), AtLeast(1),
        "Bytes of the offsets topic to read at once while it is loaded.";
    High ReadOnly Int "offsets.retention.minutes" = Text("10080"), AtLeast(1),
        "Time without members after which the offsets of a group are deleted.";
    High ReadOnly Long "offsets.retention.check.interval.ms" = Text("600000"), AtLeast(1),
        "Interval between checks for expired offsets.";
    High ReadOnly Int "offsets.topic.num.partitions" = Text("50"), AtLeast(1),
        "Partitions of the offsets topic. No effect after the topic exists.";
    High ReadOnly Short "offsets.topic.replication.factor" = Text("3"), AtLeast(1),
        "Replicas of the offsets topic, or one on each broker. The topic grows with the cluster.";
    High ReadOnly Int "offsets.topic.segment.bytes" = Text("104857600"), AtLeast(1),
        "Segment size of the offsets topic. Small segments are compacted sooner.";
    High ReadOnly Int "offsets.topic.compression.codec" = Text("0"), Between(0, 4),
        "Codec of batches in the offsets topic: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.";
};

/// Keys that Kafka does not have.
pub const OWN: &[ConfigKey] = keys! {
    Medium ReadOnly String "kafkalite.request.inline" = Text("auto"),
        OneOf(&["auto", "never", "always"]),
        "Run cheap requests on the network thread if no other request waits.";
    Low ReadOnly Int "kafkalite.request.inline.max.bytes" = Text("32768"), AtLeast(0),
        "Maximum size of a request that runs on the network thread.";
    Medium ClusterWide String "kafkalite.batch.validation" = Text("strict"),
        OneOf(&["strict", "relaxed"]),
        "strict: check the records of compressed batches. relaxed: check only their headers.";
    Low ReadOnly Int "kafkalite.fetch.sendfile.min.bytes" = Text("16384"), AtLeast(0),
        "Minimum size of a file range to send with sendfile. Smaller ranges are copied.";
    Medium ReadOnly Long "kafkalite.memory.budget.bytes" = Text("33554432"), AtLeast(1),
        "Memory for large incomplete requests, and the same for each kind of waiting request.";
    Medium ReadOnly Long "kafkalite.group.memory.bytes" = Text("268435456"), AtLeast(1),
        "Memory for subscriptions and assignments of all groups. Beyond it, joins are refused.";
    Medium ReadOnly Int "kafkalite.frame.deadline.ms" = Text("30000"), AtLeast(1),
        "Time for a request to arrive, plus one second for each \
         kafkalite.frame.min.bytes.per.second bytes.";
    Low ReadOnly Int "kafkalite.frame.min.bytes.per.second" = Text("65536"), AtLeast(1),
        "Bytes per second at which a large request must arrive.";
    Low ReadOnly Int "kafkalite.cold.read.threads" = Text("2"), Between(1, 64),
        "Threads that read records that are not in the page cache.";
    Low ReadOnly Long "kafkalite.cold.read.max.bytes" = Text("4194304"), AtLeast(65_536),
        "Bytes to read ahead from the disk for one consumer.";
    Medium ReadOnly Long "kafkalite.cold.read.max.bytes.per.second" = Text("134217728"), AtLeast(0),
        "Bytes per second to read from the disk while producers are active; 0 for no limit.";
    Medium ReadOnly Long "kafkalite.replica.check.bytes.per.second" = Text("33554432"), AtLeast(0),
        "Bytes per second to read of followed logs, to heal damage from their leaders; 0: none.";
    Medium ReadOnly Int "kafkalite.open.segments.max" = Text("4096"), AtLeast(16),
        "Maximum of open segments, at most half of the limit of open files.";
    Medium ReadOnly Int "kafkalite.admin.port" = Text("-1"), Between(-1, 65_535),
        "Port of metrics, health and admin API. 0 lets the system choose, -1 turns it off. \
         serve sets 9644.";
    Medium ReadOnly String "kafkalite.admin.host" = Text("127.0.0.1"), NotEmpty,
        "Address of metrics, health and the admin API.";
    Medium ReadOnly Password "kafkalite.admin.token" = Null, NotEmpty,
        "Secret that clients of the admin API must send, and clients of metrics on other machines. \
         Unset: only this machine may use both.";
    Medium ReadOnly Boolean "kafkalite.console.write" = Text("false"), Any,
        "true: clients of the admin API, the console among them, may change topics, keys, records \
         and groups. The profile dev sets it.";
    Low ReadOnly String "kafkalite.cluster.id" = Null, NotEmpty,
        "Cluster id of a new data directory. Unset: a random id.";
    Medium ReadOnly String "kafkalite.join" = Null, NotEmpty,
        "HOST:PORT of any broker of the cluster that a broker with a new data directory joins.";
    Low ReadOnly Boolean "kafkalite.disk.sync" = Text("true"), Any,
        "false: do not sync the disk, for temporary data. A power cut loses the data.";
    Low ReadOnly Int "kafkalite.recent.requests" = Text("0"), Between(0, 65_536),
        "Number of recent requests to remember, each with its time in every stage.";
    Low ReadOnly Boolean "kafkalite.test.control" = Text("false"), Any,
        "true: clients of the admin API may inject faults. The profile dev sets it.";
    Low ReadOnly Int "kafkalite.stop.timeout.ms" = Text("5000"), AtLeast(0),
        "Time that a stopping broker waits for clients to read their answers.";
};
