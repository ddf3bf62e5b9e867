//! A panic is a bug. It is logged with its backtrace, and it ends only the piece of work that
//! panicked.
//!
//! [`log_them`] writes the line for every thread. [`contain`] wraps each piece of work of a thread
//! that has to go on: a handler, a timer's task, one round of a network thread. A panic during
//! another panic and a full stack still end the process.

use std::any::Any;
use std::backtrace::Backtrace;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::Once;

static LOGGED: Once = Once::new();

/// From now on each panic in this process's copy of our code is one line of its log. If no
/// subscriber takes log lines, as in a process that embeds the broker, the panic goes to stderr as
/// before.
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

/// The message of a panic, if it is text.
#[must_use]
pub fn text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no text)")
}
