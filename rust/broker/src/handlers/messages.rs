//! The words of an answer, which may need as many as it has elements.
//!
//! A code says what went wrong, the words say it to a human. A request of 4 MB can name one topic
//! of 32,000 characters and a million partitions of it, and each refusal would name the topic
//! again: 32 GB. So the words of one answer are bounded, and what fails after them is answered by
//! its code alone.

use crate::metadata::ApiError;
use kafkalite_protocol::ErrorCode;

/// Most bytes of all messages of one answer.
const MAX_BYTES: usize = 16 << 20;

/// What may still be said in one answer.
pub(super) struct Messages {
    left_bytes: usize,
}

impl Messages {
    /// Nothing was said yet.
    pub(super) const fn new() -> Self {
        Self { left_bytes: MAX_BYTES }
    }

    /// A refusal with words if there is room for them; they are put together only then.
    pub(super) fn error(&mut self, code: ErrorCode, message: impl FnOnce() -> String) -> ApiError {
        if self.left_bytes == 0 {
            return code.into();
        }
        self.keep(ApiError::new(code, message()))
    }

    /// The same refusal, without its words if there is no room for them.
    pub(super) fn keep(&mut self, error: ApiError) -> ApiError {
        let length = error.message.as_ref().map_or(0, String::len);
        match self.left_bytes.checked_sub(length) {
            Some(left) => {
                self.left_bytes = left;
                error
            }
            None => {
                self.left_bytes = 0;
                error.code.into()
            }
        }
    }
}
