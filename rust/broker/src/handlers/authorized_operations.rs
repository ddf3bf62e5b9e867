//! What a client may do, as the bit fields of Metadata, DescribeCluster and DescribeGroups tell it.
//!
//! Bit `n` stands for the operation with code `n`. Without an authorizer everybody may do
//! everything that the kind of resource knows.
//! Source: Kafka's `AclOperation` and `AclEntry.supportedOperations`.

const READ: i32 = 1 << 3;
const WRITE: i32 = 1 << 4;
const CREATE: i32 = 1 << 5;
const DELETE: i32 = 1 << 6;
const ALTER: i32 = 1 << 7;
const DESCRIBE: i32 = 1 << 8;
const CLUSTER_ACTION: i32 = 1 << 9;
const DESCRIBE_CONFIGS: i32 = 1 << 10;
const ALTER_CONFIGS: i32 = 1 << 11;
const IDEMPOTENT_WRITE: i32 = 1 << 12;

/// Nobody asked.
pub const NOT_ASKED: i32 = i32::MIN;

/// Everything that can be done to a topic.
pub const TOPIC: i32 =
    READ | WRITE | CREATE | DELETE | ALTER | DESCRIBE | DESCRIBE_CONFIGS | ALTER_CONFIGS;

/// Everything that can be done to the cluster.
pub const CLUSTER: i32 = CREATE
    | ALTER
    | DESCRIBE
    | CLUSTER_ACTION
    | DESCRIBE_CONFIGS
    | ALTER_CONFIGS
    | IDEMPOTENT_WRITE;

/// Everything that can be done to a group.
pub const GROUP: i32 = READ | DELETE | DESCRIBE | DESCRIBE_CONFIGS | ALTER_CONFIGS;

/// The bit field to answer with.
pub const fn answer(asked: bool, operations: i32) -> i32 {
    if asked { operations } else { NOT_ASKED }
}
