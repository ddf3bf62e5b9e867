//! Who gets the answer to a change, and how long the change may still be made.

/// Until when a change may be made. It may wait behind others for as long as no voter leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// It is not begun after this moment of the monotonic clock. Its client has been answered that
    /// the time is over, and may have done something else since.
    pub deadline_ns: u64,
    /// It is made only while this broker leads the quorum in this term. It follows from what a
    /// leader saw, and the next leader sees for itself.
    pub term: Option<u64>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { deadline_ns: u64::MAX, term: None }
    }
}

/// Called once with the answer to a change. The call may come from any thread, and before the
/// request's call returns. Dropped uncalled when the broker stops first.
pub struct Done<A> {
    call: Box<dyn FnOnce(A) + Send>,
    bounds: Bounds,
}

impl<A: 'static> Done<A> {
    /// Of a change that may be made however late.
    pub fn new(call: impl FnOnce(A) + Send + 'static) -> Self {
        Self { call: Box::new(call), bounds: Bounds::default() }
    }

    /// Of a change that is begun until then, on the monotonic clock.
    pub fn until(deadline_ns: u64, call: impl FnOnce(A) + Send + 'static) -> Self {
        let bounds = Bounds { deadline_ns, ..Bounds::default() };
        Self { call: Box::new(call), bounds }
    }

    /// Of a duty of the leader of `term`.
    pub fn of_leader(term: u64, call: impl FnOnce(A) + Send + 'static) -> Self {
        let bounds = Bounds { term: Some(term), ..Bounds::default() };
        Self { call: Box::new(call), bounds }
    }

    /// How long the change may still be made.
    pub const fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// The answer.
    pub fn tell(self, answer: A) {
        (self.call)(answer);
    }

    /// The same for an answer of another form, that `call` makes this one of.
    pub fn through<B: 'static>(self, call: impl FnOnce(Self, B) + Send + 'static) -> Done<B> {
        let bounds = self.bounds;
        Done { call: Box::new(move |answer| call(self, answer)), bounds }
    }
}
