//! The table of APIs, and what every handler gets: the rooms, and one decoded request with its way
//! back.
//!
//! A request is decoded by its schema, handled by the module of the same name, and answered through
//! its [`Reply`]. The reply may outlive the handler: a handler that has to wait parks it. What
//! cannot be decoded closes the connection, as in Kafka.

use crate::cold_reads::ColdReads;
use crate::error::HandlerError;
use crate::purgatory::Asker;
use crate::request_queue::{Request as QueuedRequest, RequestContext};
use crate::response_queue::{Piece, Responder, Response};
use bytes::Bytes;
use kafkalite_log::FileSlice;
use kafkalite_protocol::header::begin_response;
use kafkalite_protocol::messages::{Listing, Request, Wire};
use kafkalite_protocol::{ApiKey, Reader, WirePiece, Writer};
use std::marker::PhantomData;
use std::sync::Arc;

pub mod add_raft_voter;
pub mod alter_configs;
pub mod alter_partition_reassignments;
pub mod alter_replica_log_dirs;
pub mod api_versions;
pub mod authorized_operations;
pub mod broker_heartbeat;
pub mod create_acls;
pub mod create_delegation_token;
pub mod create_partitions;
pub mod create_topics;
pub mod delete_acls;
pub mod delete_groups;
pub mod delete_records;
pub mod delete_topics;
pub mod describe_acls;
pub mod describe_client_quotas;
pub mod describe_cluster;
pub mod describe_configs;
pub mod describe_delegation_token;
pub mod describe_figures;
pub mod describe_groups;
pub mod describe_log_dirs;
pub mod describe_producers;
pub mod describe_quorum;
pub mod describe_topic_partitions;
pub mod describe_user_scram_credentials;
pub mod elect_leaders;
pub mod endpoint;
pub mod expire_delegation_token;
pub mod fetch;
pub mod find_coordinator;
pub mod get_telemetry_subscriptions;
pub mod heartbeat;
pub mod incremental_alter_configs;
pub mod init_producer_id;
pub mod join_cluster;
pub mod join_group;
pub mod leave_group;
pub mod list_config_resources;
pub mod list_groups;
pub mod list_offsets;
pub mod list_partition_reassignments;
mod messages;
pub mod metadata;
pub mod offset_commit;
pub mod offset_delete;
pub mod offset_fetch;
pub mod offset_for_leader_epoch;
mod panicked;
mod parked_change;
pub mod produce;
pub mod propose_records;
pub mod push_telemetry;
pub mod quorum;
pub mod remove_raft_voter;
pub mod renew_delegation_token;
mod rooms;
pub mod sasl_authenticate;
pub mod sasl_handshake;
pub mod sync_group;
mod table;
pub mod unregister_broker;
pub mod update_features;

pub use crate::cluster::peers::CLIENT_ID as BROKERS_CLIENT_ID;
pub use panicked::{on_panic, refusal};
pub use rooms::Rooms;
pub use table::{PRIVATE, SERVED, policy, required, run, run_early};

/// Whether a change of the cluster's metadata is over before it began: Kafka's controller finds
/// its deadline passed, and changes nothing.
const fn is_too_late(timeout_ms: i32) -> bool {
    timeout_ms <= 0
}

/// One decoded request.
pub struct Call<R: Request> {
    /// What the client asks.
    pub request: R,
    /// The way back.
    pub reply: Reply<R>,
}

/// The one answer to one request. Dropping it unsent closes the connection.
pub struct Reply<R: Request> {
    /// The version of request and response.
    pub version: i16,
    /// The response carries it back.
    pub correlation_id: i32,
    /// What the client calls itself.
    pub client_id: Option<String>,
    /// Where the request came from.
    pub context: Arc<RequestContext>,
    /// Memory that the request takes, in bytes: what decoding it was charged.
    pub memory_bytes: usize,
    responder: Responder,
    api: PhantomData<fn() -> R>,
}

impl<R: Request> Call<R> {
    /// Decodes a request.
    ///
    /// # Errors
    /// The body does not parse; the connection is then closed by dropping the responder.
    pub fn decode(request: QueuedRequest) -> Result<Self, HandlerError> {
        let QueuedRequest { header, body, context, responder, .. } = request;
        let version = header.api_version;
        let mut reader = Reader::of_request(body);
        let request = R::decode(&mut reader, version)
            .map_err(|source| HandlerError::Malformed { api: R::API_KEY, version, source })?;
        let reply = Reply {
            version,
            correlation_id: header.correlation_id,
            client_id: header.client_id,
            context,
            memory_bytes: reader.charged_bytes(),
            responder,
            api: PhantomData,
        };
        Ok(Self { request, reply })
    }
}

impl<R: Request> Reply<R> {
    /// Who waits for it.
    pub(crate) fn asker(&self) -> Asker {
        let connection_id = self.context.connection_id;
        Asker { connection_id, correlation_id: self.correlation_id }
    }

    /// Answers with a response that lies in memory.
    pub fn send(self, response: &R::Response) {
        let frame = self.framed(&[], |writer| response.encode(writer, self.version));
        self.responder.send(frame);
    }

    /// Answers with `elements` in the list of `response`, and encodes each as it comes. So an
    /// answer to a million names is never in memory as a million structs.
    pub fn send_each(
        self,
        response: &R::Response,
        elements: impl ExactSizeIterator<Item = <R::Response as Listing>::Element>,
    ) where
        R::Response: Listing,
    {
        let version = self.version;
        let (count, mut elements) = (elements.len(), elements);
        let frame = self.framed(&[], |writer| {
            response.encode_listing(writer, version, count, |writer| {
                if let Some(element) = elements.next() {
                    element.encode(writer, version);
                }
            });
        });
        self.responder.send(frame);
    }

    /// Answers with what `encode` writes, some of whose records lie in files: token `n` stands for
    /// `files[n]`. Ranges that are not cached are read in before, so that no network thread waits
    /// for a disk.
    pub fn send_with_files(
        self,
        files: &[Vec<FileSlice>],
        cold_reads: &ColdReads,
        encode: impl FnOnce(&mut Writer),
    ) {
        let frame = self.framed(files, encode);
        cold_reads.send(self.responder, frame);
    }

    fn framed(&self, files: &[Vec<FileSlice>], encode: impl FnOnce(&mut Writer)) -> Response {
        let mut writer = begin_response(R::API_KEY, self.version, self.correlation_id);
        encode(&mut writer);
        writer.patch_size();
        if files.is_empty() {
            return Response::frame(writer.into_bytes());
        }
        let mut pieces = smallvec::SmallVec::new();
        for piece in writer.into_pieces() {
            match piece {
                WirePiece::Mem(bytes) => pieces.push(Piece::Mem(bytes)),
                WirePiece::External { token, .. } => {
                    let slices = files.get(token as usize).into_iter().flatten();
                    pieces.extend(slices.cloned().map(Piece::File));
                }
            }
        }
        Response::Pieces(pieces)
    }

    /// Closes the connection once the responses before this one are out.
    pub fn close(self) {
        self.responder.send(Response::Close);
    }

    /// Says nothing: a produce with acks=0.
    pub fn stay_silent(self) {
        self.responder.send(Response::NoResponse);
    }
}

/// A complete response frame of any API, for those that are answered before they are decoded.
pub fn frame<W: Wire>(api: ApiKey, version: i16, correlation_id: i32, response: &W) -> Bytes {
    let mut writer = begin_response(api, version, correlation_id);
    response.encode(&mut writer, version);
    writer.patch_size();
    writer.into_bytes()
}
