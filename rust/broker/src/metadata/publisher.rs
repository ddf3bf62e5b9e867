//! The publisher: the one thread on which committed records become the image.
//!
//! It applies batches in the order of the log, swaps the image, and runs the followers of the
//! image. Then it completes the callers that wait for an offset. So a completed caller finds the
//! change done: partitions are open, configs hold. Readers take the image without a lock.
//! Source: the role of Kafka's `MetadataLoader` and its publishers.

use super::image::MetadataImage;
use super::records::RecordsBatch;
use super::worker::Worker;
use crate::error::panics;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Called with each new image: the one before and the one after, in order, on the publisher's
/// thread. The first call is from the empty image. It may propose a change; it must not wait for
/// one.
pub type OnImage = Box<dyn Fn(&Arc<MetadataImage>, &Arc<MetadataImage>) + Send + Sync + 'static>;

/// Called when an offset is published, or with the reason why none is published any more.
pub type OnPublished = Box<dyn FnOnce(Result<(), String>) + Send>;

const NAME: &str = "metadata-publisher";

/// The thread, the image, and who waits for it.
pub struct Publisher {
    shared: Arc<Shared>,
    worker: Worker<Task>,
}

/// Work of a quorum that has no thread of its own; a batch that it returns is committed.
pub type QuorumWork = Box<dyn FnOnce() -> Option<RecordsBatch> + Send>;

enum Task {
    Apply(RecordsBatch),
    Replace(Arc<MetadataImage>),
    Work(QuorumWork),
    /// One more follower, and a call that reports that the follower ran with the present image.
    Follow(OnImage, Box<dyn FnOnce() + Send>),
}

struct Shared {
    image: ArcSwap<MetadataImage>,
    waiting: Mutex<Waiting>,
}

struct Waiting {
    /// The offset of the last record that all followers ran with.
    published: i64,
    /// A record that did not fit: nothing is applied any more.
    broken: Option<String>,
    by_offset: BTreeMap<i64, Vec<OnPublished>>,
}

impl Publisher {
    /// Starts the thread with an image that has no followers yet. `swapped` is called with each new
    /// one, before its followers are.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub fn start(
        image: MetadataImage,
        swapped: impl Fn(&Arc<MetadataImage>) + Send + 'static,
    ) -> std::io::Result<Self> {
        let shared = Shared::new(image);
        let worker = Worker::start(NAME, shared.clone().runner(swapped))?;
        Ok(Self { shared, worker })
    }

    /// As [`Self::start`], for simulations: what the thread would do is done by [`Self::turn`].
    pub fn without_thread(
        image: MetadataImage,
        swapped: impl Fn(&Arc<MetadataImage>) + Send + 'static,
    ) -> Self {
        let shared = Shared::new(image);
        let worker = Worker::without_thread(NAME, shared.clone().runner(swapped));
        Self { shared, worker }
    }

    /// Does what comes next on this thread, if there is no other for it: one batch, one work or one
    /// follower. Whether there was anything.
    pub fn turn(&self) -> bool {
        self.worker.turn()
    }

    /// The newest image.
    pub fn image(&self) -> Arc<MetadataImage> {
        self.shared.image.load_full()
    }

    /// A committed batch, the next one of the log.
    pub fn committed(&self, batch: RecordsBatch) {
        self.worker.push(Task::Apply(batch));
    }

    /// A whole image in place of the batches that lead to it: this broker was too far behind for
    /// them. One that is not newer changes nothing.
    pub fn replace(&self, image: Arc<MetadataImage>) {
        self.worker.push(Task::Replace(image));
    }

    /// Does `work` on the publisher's thread, in its turn among the batches.
    pub fn execute(&self, work: QuorumWork) {
        self.worker.push(Task::Work(work));
    }

    /// Tells `follower` of every change from now on, beginning with one from the empty image to
    /// this one, after which `heard` is called.
    pub fn follow(&self, follower: OnImage, heard: Box<dyn FnOnce() + Send>) {
        self.worker.push(Task::Follow(follower, heard));
    }

    /// Calls `done` when the record at `offset` is in the image and all followers ran with it; at
    /// once if they have.
    pub fn when_published(&self, offset: i64, done: OnPublished) {
        let mut waiting = self.shared.waiting.lock();
        let result = match &waiting.broken {
            _ if waiting.published >= offset => Ok(()),
            Some(reason) => Err(reason.clone()),
            None => return waiting.by_offset.entry(offset).or_default().push(done),
        };
        drop(waiting);
        done(result);
    }

    /// Ends the thread; what waits is dropped.
    pub fn stop(&self) {
        self.worker.stop();
        let left = std::mem::take(&mut self.shared.waiting.lock().by_offset);
        drop(left);
    }
}

impl Shared {
    fn new(image: MetadataImage) -> Arc<Self> {
        let by_offset = BTreeMap::new();
        let waiting = Waiting { published: image.offset, broken: None, by_offset };
        let image = ArcSwap::from_pointee(image);
        Arc::new(Self { image, waiting: Mutex::new(waiting) })
    }

    /// What is done with each task.
    fn runner(
        self: Arc<Self>,
        swapped: impl Fn(&Arc<MetadataImage>) + Send + 'static,
    ) -> impl FnMut(Task) + Send + 'static {
        let mut followers: Vec<OnImage> = Vec::new();
        move |task| match task {
            Task::Apply(batch) => self.apply(&batch, &followers, &swapped),
            Task::Replace(image) => {
                let before = self.image.load_full();
                let is_newer = image.offset > before.offset;
                if is_newer && self.waiting.lock().broken.is_none() {
                    self.publish(&before, image, &followers, &swapped);
                }
            }
            Task::Work(work) => {
                if let Some(batch) = work() {
                    self.apply(&batch, &followers, &swapped);
                }
            }
            Task::Follow(follower, heard) => {
                tell(&follower, &Arc::default(), &self.image.load_full());
                followers.push(follower);
                heard();
            }
        }
    }

    fn apply(
        &self,
        batch: &RecordsBatch,
        followers: &[OnImage],
        swapped: &dyn Fn(&Arc<MetadataImage>),
    ) {
        if self.waiting.lock().broken.is_some() {
            return;
        }
        let before = self.image.load_full();
        if batch.last_offset() <= before.offset {
            // A voter that was started again tells everything once more.
            return;
        }
        match before.with_batch(batch) {
            Ok(after) => self.publish(&before, Arc::new(after), followers, swapped),
            Err(error) => {
                // The controller proposes what fits only: this broker and the log disagree.
                tracing::error!(%error, "committed metadata cannot be applied; nothing more is");
                self.give_up(error.to_string());
            }
        }
    }

    fn publish(
        &self,
        before: &Arc<MetadataImage>,
        after: Arc<MetadataImage>,
        followers: &[OnImage],
        swapped: &dyn Fn(&Arc<MetadataImage>),
    ) {
        self.image.store(Arc::clone(&after));
        swapped(&after);
        for follower in followers {
            tell(follower, before, &after);
        }
        self.complete(after.offset);
    }

    fn complete(&self, offset: i64) {
        let done = {
            let mut waiting = self.waiting.lock();
            waiting.published = offset;
            let later = waiting.by_offset.split_off(&(offset + 1));
            std::mem::replace(&mut waiting.by_offset, later)
        };
        for done in done.into_values().flatten() {
            panics::contain("an answer to a change of metadata", || done(Ok(())));
        }
    }

    fn give_up(&self, reason: String) {
        let done = {
            let mut waiting = self.waiting.lock();
            waiting.broken = Some(reason.clone());
            std::mem::take(&mut waiting.by_offset)
        };
        for done in done.into_values().flatten() {
            panics::contain("an answer to a change of metadata", || done(Err(reason.clone())));
        }
    }
}

/// A panic of one follower is its own bug: the other followers still get the image.
fn tell(follower: &OnImage, before: &Arc<MetadataImage>, after: &Arc<MetadataImage>) {
    panics::contain("a follower of the metadata image", || follower(before, after));
}

#[cfg(test)]
mod tests;
