//! The controller of a broker among others: which quorum is in force, and which brokers serve.

use super::balance::Growth;
use super::brokers::{self, Joined, Joining, Registration};
use super::changes::Change;
use super::directories::fail_directory;
use super::features::{FeatureUpdate, missing_level, update_features};
use super::{Controller, Decision, Done, Elections, OnAnswer, no_thread, only, random_id};
use crate::clock::Clock;
use crate::metadata::error::{ApiError, MetadataError};
use crate::metadata::image::{MetadataImage, Voting};
use crate::metadata::publisher::{OnImage, Publisher};
use crate::metadata::quorum::{MetadataQuorum, QuorumSwitch};
use crate::metadata::records::{ControllerEpochRecord, MetadataRecord};
use kafkalite_protocol::Uuid;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

impl Controller {
    /// A controller over one voter of several, which `start` starts with the publisher that it is
    /// to fill. The image is empty until the quorum tells more.
    ///
    /// # Errors
    /// The system has no thread, or `start` fails.
    pub fn member<Q: MetadataQuorum + 'static>(
        dir: &Path,
        clock: Arc<dyn Clock>,
        start: impl FnOnce(&Arc<Publisher>) -> Result<Arc<Q>, MetadataError>,
    ) -> Result<(Self, Arc<Q>), MetadataError> {
        let publisher = Publisher::start(MetadataImage::default(), |_| ());
        let publisher = Arc::new(publisher.map_err(no_thread(dir))?);
        // Before the first image: what a broker missed begins with what it knew when it stopped.
        let removed = Arc::new(Mutex::new(Some(HashSet::new())));
        publisher.follow(note_removed(Arc::clone(&removed)), Box::new(|| ()));
        let quorum = start(&publisher)?;
        let mut over = Self::over(quorum.clone(), publisher, clock, Box::new(random_id));
        over.removed_topics = removed;
        Ok((over, quorum))
    }

    /// Puts the quorum that `start` makes in force: of the newest image, with no change under way.
    pub fn change_over(&self, start: StartQuorum, done: OnAnswer<()>) {
        let (switch, publisher) = (Arc::clone(&self.quorum), Arc::clone(&self.publisher));
        let (start, result) = (Some(start), Ok(()));
        self.changes.submit(Box::new(Replacement { switch, publisher, start, result, done }));
    }

    /// Writes down that this broker leads the quorum, in `epoch`.
    pub fn begin_epoch(&self, controller_id: i32, epoch: i32, done: OnAnswer<()>) {
        let decide = move |image: &MetadataImage| {
            let record = ControllerEpochRecord { controller_id, epoch };
            let is_told = image.controller_id == controller_id && image.epoch >= epoch;
            let record = (!is_told).then_some(MetadataRecord::ControllerEpoch(record));
            let level = record.as_ref().and_then(|_| missing_level(image));
            (record.into_iter().chain(level).collect(), vec![Ok(())])
        };
        self.change(false, 1, decide, only(done));
    }

    /// Registers this broker in its cluster, and answers with its epoch. Other brokers lead what it
    /// led.
    pub fn register(&self, broker: Registration, done: OnAnswer<i64>) {
        let decide = move |image: &MetadataImage| {
            let fits = broker.supported.fit(broker.broker_id, image).map_err(ApiError::from);
            match fits.and_then(|()| brokers::register_again(image, &broker)) {
                Ok(records) => (records, vec![Ok(image.offset + 1)]),
                Err(error) => (vec![], vec![Err(error)]),
            }
        };
        self.change(false, 1, decide, only(done));
    }

    /// Fences a broker, or ends that, and elects leaders by who is alive then. A broker that has
    /// another epoch by now is left as it is.
    pub fn fence(&self, broker_id: i32, epoch: i64, fenced: bool, done: OnAnswer<()>) {
        let decide = move |image: &MetadataImage| {
            (brokers::fence(image, broker_id, epoch, fenced), vec![Ok(())])
        };
        self.change(false, 1, decide, only(done));
    }

    /// Hands over what a broker leads in the life of this epoch, and takes it out of the in-sync
    /// replicas, where others are in sync.
    pub fn hand_over(&self, broker_id: i32, epoch: i64, done: OnAnswer<()>) {
        let decide = move |image: &MetadataImage| {
            let is_it = image.brokers.get(&broker_id).is_some_and(|one| one.epoch == epoch);
            let is_alive = |id| image.is_alive(id);
            let elections = Elections { image, is_alive: &is_alive };
            let records = if is_it { elections.hand_over(broker_id) } else { Vec::new() };
            (records, vec![Ok(())])
        };
        self.change(false, 1, decide, only(done));
    }

    /// Gives partitions without a leader one that may lack records, where that is allowed; see
    /// [`Elections::unclean`].
    pub fn elect_unclean(&self, by_default: bool, done: OnAnswer<()>) {
        let decide =
            move |image: &MetadataImage| (unclean_elections(image, by_default), vec![Ok(())]);
        self.change(false, 1, decide, only(done));
    }

    /// Notes that a log directory of a broker failed, and has other brokers lead what it has there;
    /// see [`fail_directory`]. Calls `done` when there is nothing more to note.
    pub fn leave_directory(
        &self,
        broker_id: i32,
        directory: Uuid,
        done: impl FnOnce() + Send + 'static,
    ) {
        let decide =
            move |image: &MetadataImage| answered(fail_directory(image, broker_id, directory));
        if decide(&self.image()).0.is_empty() {
            return done();
        }
        self.change(false, 1, decide, Done::new(|_: Vec<Result<(), ApiError>>| done()));
    }

    /// Changes the finalized levels of features, all or none.
    pub fn update_features(
        &self,
        updates: Vec<FeatureUpdate>,
        validate_only: bool,
        done: OnAnswer<()>,
    ) {
        let decide = move |image: &MetadataImage| answered(update_features(image, &updates));
        self.change(validate_only, 1, decide, only(done));
    }

    /// Takes a broker out of the cluster, and elects leaders in its place.
    pub fn unregister(&self, broker_id: i32, done: OnAnswer<()>) {
        let decide = move |image: &MetadataImage| answered(brokers::unregister(image, broker_id));
        self.change(false, 1, decide, only(done));
    }

    /// Notes whether a broker, with this directory, is to be a voter.
    pub fn set_voting(&self, broker: (i32, Uuid), voting: Voting, done: OnAnswer<()>) {
        let decide =
            move |image: &MetadataImage| answered(brokers::set_voting(image, broker, voting));
        self.change(false, 1, decide, only(done));
    }

    /// Elects preferred leaders that can lead and do not, a limited number of them. Answers whether
    /// there are more.
    pub fn prefer_leaders(&self, done: OnAnswer<bool>) {
        let decide = move |image: &MetadataImage| {
            let is_alive = |id| image.is_alive(id);
            let (records, is_cut) = Elections { image, is_alive: &is_alive }.prefer_leaders();
            (records, vec![Ok(is_cut)])
        };
        self.change(false, 1, decide, only(done));
    }

    /// Begins to give the partitions of a topic more replicas.
    pub fn grow(&self, growth: Growth, done: OnAnswer<()>) {
        let decide = move |image: &MetadataImage| (grown(image, growth), vec![Ok(())]);
        self.change(false, 1, decide, only(done));
    }

    /// Whether a topic has partitions that are to get more replicas.
    pub fn may_grow(&self, growth: Growth) -> bool {
        !grown(&self.image(), growth).is_empty()
    }

    /// Whether the cluster, as it is now, takes a broker in; what it has told one that is in.
    ///
    /// # Errors
    /// Why not.
    pub fn may_join(&self, joining: &Joining) -> Result<Option<Joined>, ApiError> {
        let (records, joined) = brokers::join(&self.image(), joining)?;
        Ok(records.is_empty().then_some(joined))
    }

    /// Takes a broker into the cluster: it gets an id, and begins fenced.
    pub fn join(&self, joining: Joining, done: OnAnswer<Joined>) {
        let decide = move |image: &MetadataImage| match brokers::join(image, &joining) {
            Ok((records, joined)) => (records, vec![Ok(joined)]),
            Err(error) => (vec![], vec![Err(error)]),
        };
        self.change(false, 1, decide, only(done));
    }
}

fn grown(image: &MetadataImage, growth: Growth) -> Vec<MetadataRecord> {
    let is_alive = |id| image.is_alive(id);
    Elections { image, is_alive: &is_alive }.grow(growth)
}

/// Notes the topics that are removed, until they are asked for.
fn note_removed(removed: Arc<Mutex<Option<HashSet<Uuid>>>>) -> OnImage {
    Box::new(move |before, after| {
        if let Some(removed) = &mut *removed.lock() {
            removed.extend(before.topics.deleted_in(&after.topics).map(|topic| topic.id));
        }
    })
}

/// The records of [`Controller::elect_unclean`].
pub fn unclean_elections(image: &MetadataImage, by_default: bool) -> Vec<MetadataRecord> {
    let is_alive = |id| image.is_alive(id);
    Elections { image, is_alive: &is_alive }.unclean(by_default)
}

/// The decision on a change of one item.
fn answered(records: Result<Vec<MetadataRecord>, ApiError>) -> Decision<()> {
    match records {
        Ok(records) => (records, vec![Ok(())]),
        Err(error) => (vec![], vec![Err(error)]),
    }
}

/// Starts a quorum that holds `image`, whose records go to the publisher.
pub type StartQuorum = Box<
    dyn FnOnce(
            &Arc<MetadataImage>,
            &Arc<Publisher>,
        ) -> Result<Arc<dyn MetadataQuorum>, MetadataError>
        + Send,
>;

/// Another quorum takes over, in the turn of a change: nothing is under way then.
struct Replacement {
    switch: Arc<QuorumSwitch>,
    publisher: Arc<Publisher>,
    start: Option<StartQuorum>,
    result: Result<(), ApiError>,
    done: OnAnswer<()>,
}

impl Change for Replacement {
    fn decide(&mut self, image: &MetadataImage) -> Vec<MetadataRecord> {
        let Some(start) = self.start.take() else { return Vec::new() };
        let end = self.switch.status().high_watermark;
        self.result = if end == image.offset + 1 {
            let started = start(&Arc::new(image.clone()), &self.publisher);
            started.map(|quorum| self.switch.replace(quorum)).map_err(ApiError::from)
        } else {
            let reason = format!("the image ends at {}, the log at {end}", image.offset + 1);
            Err(MetadataError::Offline { reason }.into())
        };
        Vec::new()
    }

    fn answer(self: Box<Self>, result: Result<(), ApiError>) {
        self.done.tell(result.and(self.result));
    }
}
