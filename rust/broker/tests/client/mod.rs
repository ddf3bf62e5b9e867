//! A client of a few lines, and a broker in a directory of its own.
#![allow(dead_code, clippy::unwrap_used)]

#[path = "../../../testing/awaited.rs"]
pub mod awaited;
pub mod storage;

use bytes::Bytes;
use kafkalite_broker::broker::Broker;
use kafkalite_broker::config::{BrokerConfig, Sources, load};
use kafkalite_broker::metadata::controller::{
    ConfigChange, ConfigOperation, NewTopic, NoRules, OFFSETS_TOPIC, TopicDefaults,
};
use kafkalite_broker::metadata::{ApiError, ConfigResource};
use kafkalite_broker::partitions::Partition;
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::header::{RequestHeader, response_header_is_flexible};
use kafkalite_protocol::messages::produce::{
    PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData,
};
use kafkalite_protocol::messages::{ApiKey, Request, Wire};
use kafkalite_protocol::record_batch::{Batches, RecordBatchBuilder};
use kafkalite_protocol::{LeaderEpoch, Offset, Reader, Records, Writer};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

/// A broker on a free port that keeps its data in `directory`.
pub fn start(directory: &Path, settings: &[(&str, &str)]) -> Broker {
    Broker::start(config(directory, settings)).unwrap()
}

pub fn config(directory: &Path, settings: &[(&str, &str)]) -> BrokerConfig {
    let data_dir = directory.display().to_string();
    let own = [("listeners", "PLAINTEXT://127.0.0.1:0"), ("log.dirs", &data_dir)];
    let flags = own.iter().chain(settings);
    let flags = flags.map(|(key, value)| ((*key).into(), (*value).into(), "--set".into()));
    load(&Sources { flags: flags.collect(), ..Sources::default() }).unwrap()
}

pub fn create_topic(broker: &Broker, name: &str, partitions: i32, configs: &[(&str, &str)]) {
    let configs = configs.iter().map(|(key, value)| ((*key).into(), Some((*value).into())));
    let topic = NewTopic {
        name: name.into(),
        num_partitions: partitions,
        replication_factor: 1,
        assignments: vec![],
        configs: configs.collect(),
    };
    let defaults = TopicDefaults { num_partitions: 1, replication_factor: 1 };
    let controller = &broker.rooms().controller;
    controller
        .blocking()
        .create_topics(&[topic], defaults, &NoRules, false)
        .pop()
        .unwrap()
        .unwrap();
    await_notes(broker);
}

/// Waits until the metadata note the log directory of every replica that is there: before that
/// nothing is acknowledged, and no high watermark moves.
pub fn await_notes(broker: &Broker) {
    let partitions = &broker.rooms().partitions;
    awaited::until("log directories are noted", || partitions.unassigned().is_empty());
}

/// Makes `__consumer_offsets`, as the first FindCoordinator does.
pub fn create_offsets_topic(broker: &Broker) -> Result<(), ApiError> {
    let (rooms, names) = (broker.rooms(), [OFFSETS_TOPIC]);
    rooms.controller.blocking().create_automatically(&names, &rooms.config()).remove(0)
}

/// Commits configs of a resource without asking whether it may have them, as an earlier release did
/// with some.
pub fn commit_configs(broker: &Broker, resource: ConfigResource, configs: &[(&str, &str)]) {
    let set = |(key, value): &(&str, &str)| {
        ((*key).to_owned(), ConfigOperation::Set((*value).to_owned()))
    };
    let operations = configs.iter().map(set).collect();
    let change = ConfigChange { resource, replace: false, operations };
    let controller = &broker.rooms().controller;
    controller.blocking().alter_configs(&[change], &NoRules, false).pop().unwrap().unwrap();
}

/// One connection.
pub struct Client {
    stream: TcpStream,
    next_id: i32,
}

impl Client {
    pub fn connect(broker: &Broker) -> Self {
        Self::connect_to(broker.listeners()[0].1)
    }

    pub fn connect_to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(awaited::LIMIT)).unwrap();
        stream.set_write_timeout(Some(awaited::LIMIT)).unwrap();
        Self { stream, next_id: 0 }
    }

    pub fn send<R: Request>(&mut self, request: &R, version: i16) -> i32 {
        self.next_id += 1;
        let mut writer = Writer::new();
        writer.i32(0);
        let header = RequestHeader {
            api_key: R::API_KEY as i16,
            api_version: version,
            correlation_id: self.next_id,
            client_id: Some("test".into()),
        };
        header.encode(&mut writer);
        request.encode(&mut writer, version);
        writer.patch_size();
        self.stream.write_all(&writer.into_bytes()).unwrap();
        self.next_id
    }

    /// The next response; `None` when the broker closed the connection.
    pub fn receive<R: Request>(&mut self, version: i16) -> Option<(i32, R::Response)> {
        let mut size = [0; 4];
        self.read(R::API_KEY, &mut size)?;
        let mut frame = vec![0; u32::from_be_bytes(size) as usize];
        self.read(R::API_KEY, &mut frame)?;
        let mut reader = Reader::new(Bytes::from(frame));
        let id = reader.i32().unwrap();
        if response_header_is_flexible(R::API_KEY, version) {
            reader.skip_tags().unwrap();
        }
        Some((id, R::Response::decode(&mut reader, version).unwrap()))
    }

    /// Fills `bytes`; `None` when the broker closed the connection.
    fn read(&mut self, api: ApiKey, bytes: &mut [u8]) -> Option<()> {
        let error = match self.stream.read_exact(bytes) {
            Ok(()) => return Some(()),
            Err(error) => error,
        };
        let is_late = error.kind() == std::io::ErrorKind::WouldBlock;
        assert!(!is_late, "waited {:?} for an answer to {api:?}", awaited::LIMIT);
        None
    }

    pub fn call<R: Request>(&mut self, request: &R, version: i16) -> R::Response {
        let sent = self.send(request, version);
        let (received, response) = self.receive::<R>(version).expect("an answer");
        assert_eq!(sent, received);
        response
    }

    /// Produces one batch to partition 0 and returns that partition's answer.
    pub fn produce(&mut self, topic: &str, batch: Bytes, acks: i16) -> PartitionProduceResponse {
        let response = self.call(&produce_request(topic, batch, acks), 9);
        response.responses[0].partition_responses[0].clone()
    }
}

pub fn produce_request(topic: &str, batch: Bytes, acks: i16) -> ProduceRequest {
    let data = PartitionProduceData { index: 0, records: Some(Records::Bytes(batch)) };
    ProduceRequest {
        acks,
        timeout_ms: 5_000,
        topic_data: vec![TopicProduceData {
            name: topic.into(),
            partition_data: vec![data],
            ..TopicProduceData::default()
        }],
        ..ProduceRequest::default()
    }
}

/// A batch of `values` without keys; `producer` is id, epoch and first sequence.
pub fn batch(values: &[&str], producer: Option<(i64, i16, i32)>) -> Bytes {
    let mut builder = RecordBatchBuilder::new(Codec::None);
    let mut timestamp_ms = 1_000;
    if let Some((id, epoch, sequence)) = producer {
        builder = builder.producer(id, epoch, sequence);
        // The log forgets producers by the time of their last record.
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        timestamp_ms = i64::try_from(since.unwrap().as_millis()).unwrap();
    }
    for value in values {
        builder.append(timestamp_ms, None, Some(value.as_bytes()), &[]);
    }
    builder.build(Offset(0), LeaderEpoch(-1)).unwrap()
}

/// How many records can be read of a log that begins at offset 0.
pub fn record_count(partition: &Partition) -> i32 {
    let log = partition.log();
    let read = log.read(Offset(0), u32::MAX, log.log_end_offset(), true).unwrap();
    let bytes: Vec<u8> = read.slices.iter().flat_map(|slice| slice.read().unwrap()).collect();
    Batches::new(&bytes).map(|batch| batch.unwrap().header().record_count).sum()
}
