//! What a client may do: operations on resources, and the bit fields of Metadata, DescribeCluster
//! and DescribeGroups that tell it.
//!
//! Bit `n` stands for the operation with code `n`. Without an authorizer every client may do every
//! operation of the kind of resource.
//! Source: Kafka's `AclOperation`, `ResourceType` and `AclEntry.supportedOperations`.

/// What can be done to a resource, with Kafka's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    /// Fetch records, commit offsets.
    Read = 3,
    /// Produce.
    Write = 4,
    /// Create.
    Create = 5,
    /// Delete.
    Delete = 6,
    /// Change.
    Alter = 7,
    /// See that it is there.
    Describe = 8,
    /// What brokers do among themselves.
    ClusterAction = 9,
    /// See its settings.
    DescribeConfigs = 10,
    /// Change its settings.
    AlterConfigs = 11,
    /// Produce with an idempotent producer.
    IdempotentWrite = 12,
}

impl Operation {
    /// Its place in a bit field.
    #[must_use]
    pub const fn bit(self) -> i32 {
        1 << self as u8
    }
}

/// What operations are done to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// A topic.
    Topic,
    /// A group.
    Group,
    /// The cluster.
    Cluster,
}

impl Resource {
    /// Everything that can be done to it, as a bit field.
    #[must_use]
    pub const fn operations(self) -> i32 {
        use Operation::*;
        match self {
            Self::Topic => {
                bits(&[Read, Write, Create, Delete, Alter, Describe, DescribeConfigs, AlterConfigs])
            }
            Self::Group => bits(&[Read, Delete, Describe, DescribeConfigs, AlterConfigs]),
            Self::Cluster => bits(&[
                Create,
                Alter,
                Describe,
                ClusterAction,
                DescribeConfigs,
                AlterConfigs,
                IdempotentWrite,
            ]),
        }
    }
}

const fn bits(operations: &[Operation]) -> i32 {
    let (mut bits, mut i) = (0, 0);
    while i < operations.len() {
        bits |= operations[i].bit();
        i += 1;
    }
    bits
}

/// The request did not ask for operations.
pub const NOT_ASKED: i32 = i32::MIN;

/// The bit field to answer with.
#[must_use]
pub const fn answer(asked: bool, resource: Resource) -> i32 {
    if asked { resource.operations() } else { NOT_ASKED }
}
