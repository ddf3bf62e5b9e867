//! A panic is a bug: it is told with its backtrace, and it ends what ran into it, nothing else.
//!
//! [`log_them`] writes the line, whichever thread it is. [`contain`] stands around each piece of
//! work of a thread that has to go on: a handler, a timer's task, one round of a network thread.
//! Nothing can be done about a panic while another one unwinds, or about a stack that is full.

use std::any::Any;
use std::backtrace::Backtrace;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::Once;

static LOGGED: Once = Once::new();

/// From now on each panic in this process's copy of our code is one line of its log. Where nobody
/// takes log lines, as in a process that embeds us and did not ask, it is told as before: on
/// stderr.
pub fn log_them() {
    LOGGED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if tracing::enabled!(tracing::Level::ERROR) { log(panic) } else { before(panic) }
        }));
    });
}

fn log(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let location = panic.location().map(ToString::to_string);
    tracing::error!(
        thread = thread.name().unwrap_or("(no name)"),
        location = location.as_deref().unwrap_or("(unknown)"),
        panic = text(panic.payload()),
        // Whatever RUST_BACKTRACE says: a panic is rare, and this is all that is left of it.
        backtrace = %Backtrace::force_capture(),
        "panic"
    );
}

/// Does `act`, in which a panic ends: `None` then, and a line that says what it ended.
pub fn contain<R>(what: impl Display, act: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(result) => Some(result),
        Err(payload) => {
            tracing::error!(panic = text(&*payload), "{what} panicked");
            None
        }
    }
}

/// What a panic said, as far as it can be told.
#[must_use]
pub fn text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no text)")
}
