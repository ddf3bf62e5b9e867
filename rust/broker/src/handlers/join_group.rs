//! JoinGroup: a member enters a group. Parked until the join phase ends.
//!
//! Source: Kafka's `KafkaApis.handleJoinGroupRequest`, KIP-394, KIP-345.

use super::{Call, Rooms};
use crate::coordinator::JoinContext;
use kafkalite_protocol::messages::join_group::{JoinGroupRequest, JoinGroupResponse};
use kafkalite_protocol::{ErrorCode, Uuid};
use std::net::IpAddr;

/// First version that may name no protocol.
const NULLABLE_PROTOCOL_VERSION: i16 = 7;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<JoinGroupRequest>) {
    let Call { mut request, reply } = call;
    if reply.version == 0 {
        // The first version knows one timeout.
        request.rebalance_timeout_ms = request.session_timeout_ms;
    }
    let Some(uuid) = random_uuid() else {
        return reply.send(&JoinGroupResponse {
            member_id: request.member_id,
            error_code: ErrorCode::UnknownServerError.code(),
            ..JoinGroupResponse::default()
        });
    };
    let context = JoinContext {
        version: reply.version,
        client_id: reply.client_id.clone().unwrap_or_default(),
        client_host: client_host(reply.context.peer.ip()),
        uuid,
    };
    let answer = move |mut response: JoinGroupResponse| {
        // A refused member gets no protocol; earlier versions have no null for that.
        if reply.version >= NULLABLE_PROTOCOL_VERSION && response.error_code != 0 {
            response.protocol_name = None;
        }
        reply.send(&response);
    };
    rooms.groups.join(context, request, Box::new(answer));
}

/// An address as Java prints one without a name: `/127.0.0.1`.
fn client_host(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => format!("/{address}"),
        IpAddr::V6(address) => {
            let parts = address.segments().map(|part| format!("{part:x}"));
            format!("/{}", parts.join(":"))
        }
    }
}

/// Random bytes as a UUID is written; `None` if the system has none.
fn random_uuid() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(hyphenated(Uuid::from_random(bytes)))
}

fn hyphenated(uuid: Uuid) -> String {
    let digits = format!("{:032x}", u128::from_be_bytes(uuid.0));
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_ids_are_written_as_java_writes_them() {
        let table = [
            ("127.0.0.1", "/127.0.0.1"),
            ("::ffff:10.0.0.7", "/10.0.0.7"),
            ("::1", "/0:0:0:0:0:0:0:1"),
        ];
        for (address, expected) in table {
            assert_eq!(address.parse().map(client_host).as_deref(), Ok(expected));
        }
        let uuid = Uuid::from_random([0xab; 16]);
        assert_eq!(hyphenated(uuid), "abababab-abab-4bab-abab-abababababab");
    }
}
