//! A producer: records go in on any thread, batches go out on the client's own.
//!
//! The calls here are short and never wait. They return handles to wait on: a topic's metadata
//! ([`Producer::look_up`]), memory ([`accumulator::Memory`]), the fate of a record
//! ([`accumulator::Handle`]), a flush. So a caller may wait as it likes: on a thread with a
//! deadline, or in an event loop with a callback.
//! Source: Kafka's `KafkaProducer`, without transactions.

use std::future::Future;
use std::iter::Peekable;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kafkalite_connection::{Cluster, PartitionImage, Wanted};

use crate::config::ProducerConfig;
use crate::error::ClientError;
use crate::producer::accumulator::{
    Accumulator, Flush, Memory, NoRoom, Place, Record, Run, Settings, Sink, Ticket, TopicQueues,
};
use crate::producer::sender::{Metrics, Outbox, Sender, Stop};
use crate::runtime::{Call, Runtime};

pub use kafkalite_protocol::record_batch::write_header;

pub mod accumulator;
pub mod bulk;
mod idempotence;
mod partitioner;
mod sender;
#[cfg(test)]
mod tests;

/// How long the sender gets to fail what is left, after the time to deliver it is over.
const STOP_TIMEOUT: Duration = Duration::from_millis(500);

/// Whether a topic is asked for that is known already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// No: it has what it had.
    IfUnknown,
    /// Yes: it may have got a partition that it lacked.
    Anew,
}

/// A producer. `T` is what a record may carry; the [`Sink`] gets it with the record's fate.
pub struct Producer<T> {
    config: ProducerConfig,
    cluster: Cluster,
    accumulator: Arc<Accumulator<T>>,
    outbox: Arc<Outbox<T>>,
    stop: Arc<Stop>,
    /// The sender, for as long as it runs.
    sending: Call<()>,
    metrics: Arc<Metrics>,
    runtime: Runtime,
}

impl<T: Send + 'static> Producer<T> {
    /// Starts its thread; nothing is sent before the first record.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn start(config: ProducerConfig, sink: Arc<dyn Sink<T>>) -> Result<Self, ClientError> {
        let settings = Settings {
            batch_size: config.batch_size.max(1),
            buffer_memory: config.buffer_memory,
            max_request_size: config.max_request_size,
            partitioner: config.partitioner,
            ignore_keys: config.partitioner_ignore_keys,
        };
        let refused = |error: getrandom::Error| ClientError::Resource {
            what: "randomness".to_owned(),
            why: error.to_string(),
        };
        let accumulator = Accumulator::new(settings, getrandom::u64().map_err(refused)?);
        let cluster = Cluster::new(config.client.connection.clone());
        let runtime = Runtime::start("kafkalite-prod")?;
        let (stop, metrics) = (Arc::new(Stop::default()), Arc::new(Metrics::default()));
        let sender = Sender::new(
            config.clone(),
            cluster.clone(),
            Arc::clone(&accumulator),
            sink,
            Arc::clone(&stop),
            Arc::clone(&metrics),
        );
        let outbox = sender.outbox();
        let sending = runtime.begin(async move {
            sender.run().await;
            Ok(())
        })?;
        Ok(Self { config, cluster, accumulator, outbox, stop, sending, metrics, runtime })
    }

    /// How it was configured.
    pub fn config(&self) -> &ProducerConfig {
        &self.config
    }

    /// The cluster it sends to.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Refuses where the producer is closed, or was made in another process.
    ///
    /// # Errors
    /// `Forked`, or `Closed`; the error that ended it, where one did.
    #[inline]
    pub fn check(&self) -> Result<(), ClientError> {
        self.runtime.check_fork_cheaply()?;
        if self.accumulator.is_closed() { Err(self.closed()) } else { Ok(()) }
    }

    fn closed(&self) -> ClientError {
        let closed = || ClientError::Closed { what: "the producer".to_owned() };
        self.accumulator.failure().map_or_else(closed, |failure| (*failure).clone())
    }

    /// The topic, if its partitions are known: no wait, no I/O.
    pub fn topic(&self, name: &str) -> Option<Arc<TopicQueues<T>>> {
        self.accumulator.topic(name)
    }

    /// Asks for a topic; it is known to [`Self::topic`] afterwards, with as many queues as it has
    /// partitions.
    ///
    /// # Errors
    /// `Forked`; of the call: what [`Cluster::topic`] fails with at `deadline`, or before.
    pub fn look_up(
        &self,
        name: &str,
        ask: Ask,
        deadline: Instant,
    ) -> Result<Call<Arc<TopicQueues<T>>>, ClientError> {
        self.runtime.begin(self.learn(name, ask, deadline))
    }

    /// The same for event loops: calls `done` on the client's thread.
    ///
    /// # Errors
    /// `Forked`.
    pub fn look_up_then(
        &self,
        name: &str,
        ask: Ask,
        deadline: Instant,
        done: impl FnOnce(Result<Arc<TopicQueues<T>>, ClientError>) + Send + 'static,
    ) -> Result<(), ClientError> {
        let learn = self.learn(name, ask, deadline);
        let mut told = Told(Some(done), PhantomData);
        self.runtime.spawn(async move { told.tell(learn.await) }).map(drop)
    }

    fn learn(
        &self,
        name: &str,
        ask: Ask,
        deadline: Instant,
    ) -> impl Future<Output = Result<Arc<TopicQueues<T>>, ClientError>> + Send + 'static {
        let (cluster, accumulator) = (self.cluster.clone(), Arc::clone(&self.accumulator));
        let name = name.to_owned();
        async move {
            cluster.named([name.as_str()]);
            if ask == Ask::Anew {
                let refresh = cluster.refresh(Wanted::Topics(vec![name.clone()]));
                // Late, what is known by then has to do.
                let asked = tokio::time::timeout_at(deadline.into(), refresh).await;
                asked.unwrap_or_else(|_| Ok(cluster.image()))?;
            }
            let topic = cluster.topic(&name, deadline).await?;
            Ok(accumulator.follow(&name, topic.id, topic.partitions.len() as u32))
        }
    }

    /// Asks for the topic's partitions as they are now.
    ///
    /// # Errors
    /// `Forked`; of the call: what [`Cluster::topic`] fails with.
    pub fn partitions(
        &self,
        name: &str,
        deadline: Instant,
    ) -> Result<Call<Vec<PartitionImage>>, ClientError> {
        let (cluster, name) = (self.cluster.clone(), name.to_owned());
        self.runtime.begin(async move {
            cluster.named([name.as_str()]);
            let topic = cluster.topic(&name, deadline).await?;
            Ok(topic.partitions.clone())
        })
    }

    /// The partition of a record: the one it names, or else what its key or the queues say.
    ///
    /// # Errors
    /// - case A: `NoPartition`, as far as is known; see [`Ask::Anew`]
    /// - case B: `InvalidArgument`, for a number below 0
    #[inline]
    pub fn partition(
        &self,
        topic: &TopicQueues<T>,
        named: Option<i32>,
        key: Option<&[u8]>,
    ) -> Result<u32, ClientError> {
        let Some(named) = named else { return Ok(self.accumulator.partition(topic, key)) };
        let count = topic.partition_count();
        match u32::try_from(named) {
            Ok(partition) if partition < count => Ok(partition),
            Ok(_) => Err(ClientError::NoPartition {
                topic: topic.name().to_string(),
                count: count as usize,
                partition: named,
            }),
            Err(_) => Err(ClientError::InvalidArgument {
                what: "partition".to_owned(),
                why: format!("{named} is negative; leave it out to have one chosen"),
            }),
        }
    }

    /// Refuses a record that no request can carry.
    ///
    /// # Errors
    /// `MessageTooLarge`.
    #[inline]
    pub fn check_size(&self, record: &Record<'_>) -> Result<(), ClientError> {
        self.accumulator.check_size(record)
    }

    /// Appends one record; see [`Accumulator::append`].
    ///
    /// # Errors
    /// If there is no memory now, or no such partition any more.
    #[inline]
    pub fn append(
        &self,
        topic: &TopicQueues<T>,
        partition: u32,
        record: Record<'_>,
        token: Option<T>,
        ticket: Option<Ticket>,
    ) -> Result<Place<T>, NoRoom<T>> {
        self.accumulator.append(topic, partition, record, token, ticket)
    }

    /// Appends records for as long as they go into one batch; see [`Accumulator::append_run`].
    ///
    /// # Errors
    /// If there is no memory for the first of them, or no such partition any more.
    pub fn append_run<'a, I: Iterator<Item = Record<'a>>>(
        &self,
        topic: &TopicQueues<T>,
        partition: u32,
        records: &mut Peekable<I>,
        ticket: Option<Ticket>,
    ) -> Result<Run<T>, NoRoom<T>> {
        let run = self.accumulator.append_run(topic, partition, records, None, ticket)?;
        if run.filled {
            self.accumulator.tell_filled();
        }
        Ok(run)
    }

    /// The memory that records wait for; batches leave early while a caller waits.
    pub fn memory(&self) -> &Arc<Memory> {
        self.accumulator.memory()
    }

    /// Gets in line for memory: the sender sends what it has.
    #[must_use]
    pub fn wait_for_memory(&self) -> Ticket {
        let ticket = self.memory().enter();
        self.accumulator.nudge();
        ticket
    }

    /// The error of a caller that got no memory in time.
    #[must_use]
    pub fn buffer_full(&self, needed: usize) -> ClientError {
        if self.accumulator.is_closed() {
            return self.closed();
        }
        let after_ms = self.config.max_block.as_millis() as u64;
        ClientError::BufferFull { needed, after_ms }
    }

    /// Begins to send everything that was appended so far without lingering.
    ///
    /// # Errors
    /// `Forked`.
    pub fn flush(&self) -> Result<Flush<T>, ClientError> {
        self.runtime.check_fork_cheaply()?;
        Ok(self.accumulator.flush())
    }

    /// Takes no more records, and sends what it has.
    pub fn begin_close(&self) {
        if self.runtime.check_fork_cheaply().is_ok() {
            self.accumulator.close();
        }
    }

    /// Ends, after [`Self::begin_close`]: what is not delivered by now fails with `Closed`.
    /// Returns within a second.
    pub fn end(&self) {
        if self.runtime.check_fork_cheaply().is_err() {
            return;
        }
        self.stop.now();
        self.accumulator.close();
        // Everything is delivered or failed when it ends; where its thread does not come to that
        // in time, here.
        let _ = self.sending.wait(STOP_TIMEOUT);
        self.outbox.end();
        self.runtime.shutdown(STOP_TIMEOUT);
    }

    /// What it counts, by Kafka's names; times in ms, sizes in bytes.
    pub fn metrics(&self) -> Vec<(&'static str, f64)> {
        let mut all = self.metrics.snapshot();
        let memory = self.memory();
        all.push(("buffer-total-bytes", memory.limit() as f64));
        all.push(("buffer-available-bytes", (memory.limit() - memory.used()) as f64));
        all
    }
}

/// A callback that is called once. The argument is `Closed` if the task that should call is dropped
/// before.
struct Told<R, F: FnOnce(Result<R, ClientError>)>(Option<F>, PhantomData<R>);

impl<R, F: FnOnce(Result<R, ClientError>)> Told<R, F> {
    fn tell(&mut self, result: Result<R, ClientError>) {
        if let Some(done) = self.0.take() {
            done(result);
        }
    }
}

impl<R, F: FnOnce(Result<R, ClientError>)> Drop for Told<R, F> {
    fn drop(&mut self) {
        self.tell(Err(ClientError::Closed { what: "the producer".to_owned() }));
    }
}
