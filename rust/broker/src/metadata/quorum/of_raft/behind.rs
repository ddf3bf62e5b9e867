//! An outcome counts here when this broker has the records that it speaks of.
//!
//! A broker that was taken out of the cluster, or is cut off, gets no more of them. The change
//! would wait without end, and every change behind it.

use super::{no_controller, unknown};
use crate::metadata::error::MetadataError;
use crate::metadata::publisher::Publisher;
use crate::metadata::quorum::Outcome;
use std::time::Duration;
use tokio::sync::oneshot;

/// How long the image may stand still while it lacks a record that counts.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// The outcome, as soon as the image has the records that it speaks of; another one where the image
/// does not get on.
pub(super) async fn settled_here(
    publisher: &Publisher,
    outcome: Outcome,
    patience: Duration,
) -> Outcome {
    let offset = match &outcome {
        Outcome::Committed(offset) => *offset,
        Outcome::Rejected(MetadataError::Overtaken { expected, found }) if found > expected => {
            *found
        }
        _ => return outcome,
    };
    let (told, mut heard) = oneshot::channel();
    publisher.when_published(offset, Box::new(move |result| _ = told.send(result)));
    let mut before = publisher.image().offset;
    while tokio::time::timeout(patience, &mut heard).await.is_err() {
        let now = publisher.image().offset;
        // Followers of an image that has the record may take long.
        if now < offset && now == before {
            let reason = format!(
                "this broker has no metadata after offset {now}, and {offset} counts: it was \
                 taken out of the cluster, or is cut off"
            );
            return match outcome {
                Outcome::Committed(_) => unknown(reason),
                _ => no_controller(reason),
            };
        }
        before = now;
    }
    outcome
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::metadata::image::MetadataImage;
    use crate::metadata::records::{MetadataRecord, ProducerIdsRecord, RecordsBatch};

    const SHORT: Duration = Duration::from_millis(50);

    fn told(publisher: &Publisher, outcome: Outcome) -> Outcome {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.unwrap().block_on(settled_here(publisher, outcome, SHORT))
    }

    fn overtaken() -> Outcome {
        Outcome::Rejected(MetadataError::Overtaken { expected: -1, found: 0 })
    }

    #[test]
    fn what_counts_and_never_comes_here_ends_the_wait() {
        let publisher = Publisher::start(MetadataImage::default(), |_| ()).unwrap();
        let refused = told(&publisher, overtaken());
        assert!(matches!(refused, Outcome::Rejected(MetadataError::NoController { .. })));
        let lost = told(&publisher, Outcome::Committed(0));
        assert!(matches!(lost, Outcome::Unknown(MetadataError::NoController { .. })));
    }

    #[test]
    fn what_is_here_counts_as_it_is() {
        let publisher = Publisher::start(MetadataImage::default(), |_| ()).unwrap();
        let record = ProducerIdsRecord { broker_id: 1, next_producer_id: 10 };
        let records = vec![MetadataRecord::ProducerIds(record)];
        publisher.committed(RecordsBatch { base_offset: 0, epoch: 1, timestamp_ms: 0, records });
        assert!(matches!(told(&publisher, Outcome::Committed(0)), Outcome::Committed(0)));
        assert!(matches!(
            told(&publisher, overtaken()),
            Outcome::Rejected(MetadataError::Overtaken { .. })
        ));
    }
}
