//! What a caller holds of a request: its answer to come.

use super::shared::Shared;
use crate::error::ConnectionError;
use bytes::Bytes;
use kafkalite_protocol::Reader;
use kafkalite_protocol::header::response_header_is_flexible;
use kafkalite_protocol::messages::{Request, Wire};
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::oneshot;

/// The answer to a request that was queued: its version, and the response.
pub struct Reply<R> {
    answer: Result<oneshot::Receiver<Result<Bytes, ConnectionError>>, Option<ConnectionError>>,
    version: i16,
    shared: Arc<Shared>,
    request: PhantomData<fn() -> R>,
}

impl<R: Request> Reply<R> {
    pub(super) fn new(
        answer: oneshot::Receiver<Result<Bytes, ConnectionError>>,
        version: i16,
        shared: Arc<Shared>,
    ) -> Self {
        Self { answer: Ok(answer), version, shared, request: PhantomData }
    }

    pub(super) fn failed(error: ConnectionError, shared: Arc<Shared>) -> Self {
        Self { answer: Err(Some(error)), version: 0, shared, request: PhantomData }
    }

    /// The body of the answer, before it is decoded: of ApiVersions its form is not known before.
    pub(super) fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Bytes, ConnectionError>> {
        match &mut self.answer {
            Ok(answer) => Pin::new(answer).poll(cx).map(|answer| {
                answer.unwrap_or_else(|_| Err(self.shared.disconnected("the client was shut down")))
            }),
            Err(error) => {
                Poll::Ready(Err(error.take().expect("a reply is not polled after its end")))
            }
        }
    }
}

/// Reads the body of an answer to `R`; what cannot be read ends the connection.
pub(super) fn decode<R: Request>(
    shared: &Shared,
    version: i16,
    body: Bytes,
) -> Result<(i16, R::Response), ConnectionError> {
    let mut reader = Reader::new(body);
    let decoded = if response_header_is_flexible(R::API_KEY, version) {
        reader.skip_tags().and_then(|()| R::Response::decode(&mut reader, version))
    } else {
        R::Response::decode(&mut reader, version)
    };
    decoded.map(|response| (version, response)).map_err(|error| {
        let name = R::API_KEY.name();
        let why = format!("an answer to {name} version {version}: {error}");
        let error = shared.malformed(why);
        // What cannot be read makes everything after it doubtful.
        shared.close(error.clone());
        error
    })
}

impl<R: Request> Future for Reply<R> {
    type Output = Result<(i16, R::Response), ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_body(cx).map(|body| decode::<R>(&self.shared, self.version, body?))
    }
}

/// A request without an answer: completes with its version when it was sent.
pub struct Sent {
    taken: Result<oneshot::Receiver<()>, ()>,
    version: i16,
    lost: Option<ConnectionError>,
}

impl Sent {
    pub(super) fn new(taken: oneshot::Receiver<()>, version: i16, lost: ConnectionError) -> Self {
        Self { taken: Ok(taken), version, lost: Some(lost) }
    }

    pub(super) fn failed(error: ConnectionError) -> Self {
        Self { taken: Err(()), version: 0, lost: Some(error) }
    }
}

impl Future for Sent {
    type Output = Result<i16, ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let taken = match &mut self.taken {
            Ok(taken) => match Pin::new(taken).poll(cx) {
                Poll::Ready(taken) => taken.is_ok(),
                Poll::Pending => return Poll::Pending,
            },
            Err(()) => false,
        };
        if taken {
            return Poll::Ready(Ok(self.version));
        }
        Poll::Ready(Err(self.lost.take().expect("it is not polled after its end")))
    }
}
