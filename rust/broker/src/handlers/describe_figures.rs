//! DescribeFigures: another broker adds up the figures of the cluster.

use super::{Call, Rooms};
use crate::cluster::figures::Question;
use kafkalite_protocol::messages::describe_figures::{
    DescribeFiguresRequest, DescribeFiguresResponse,
};

/// Handles one request. Neither the thread that runs it nor its lane waits for the figures.
pub fn handle(rooms: &Rooms, call: Call<DescribeFiguresRequest>) {
    let Call { request, reply } = call;
    let peer = reply.context.peer.ip();
    rooms.cluster.tell_figures(Question { peer, request }, move |told| {
        let (status, body) = (told.status, told.body);
        reply.send(&DescribeFiguresResponse { status, body, ..Default::default() });
    });
}
