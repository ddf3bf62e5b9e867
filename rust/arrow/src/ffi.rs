//! The structs of the C data interface, and what releases them.

use std::ffi::{c_char, c_int, c_void};

/// A type: a format, a name, children.
#[repr(C)]
#[derive(Debug)]
pub struct ArrowSchema {
    /// The type, in a few letters.
    pub format: *const c_char,
    /// The column's name; may be null.
    pub name: *const c_char,
    /// Key-value pairs; may be null.
    pub metadata: *const c_char,
    /// Dictionary order, nullable, sorted keys.
    pub flags: i64,
    /// How many children there are.
    pub n_children: i64,
    /// The children.
    pub children: *mut *mut ArrowSchema,
    /// The type of a dictionary's values, or null.
    pub dictionary: *mut ArrowSchema,
    /// Frees the struct's contents; null where that was done.
    pub release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    /// The maker's own.
    pub private_data: *mut c_void,
}

/// Data of a type.
#[repr(C)]
#[derive(Debug)]
pub struct ArrowArray {
    /// Rows.
    pub length: i64,
    /// Rows that are null; -1 where nobody counted.
    pub null_count: i64,
    /// Rows to skip at the start of the buffers.
    pub offset: i64,
    /// How many buffers there are.
    pub n_buffers: i64,
    /// How many children there are.
    pub n_children: i64,
    /// The buffers; the first is the validity bitmap where the type has one.
    pub buffers: *mut *const c_void,
    /// The children.
    pub children: *mut *mut ArrowArray,
    /// A dictionary's values, or null.
    pub dictionary: *mut ArrowArray,
    /// Frees the struct's contents; null where that was done.
    pub release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    /// The maker's own.
    pub private_data: *mut c_void,
}

/// Arrays of one type, one after the other.
#[repr(C)]
#[derive(Debug)]
pub struct ArrowArrayStream {
    /// Writes the type; 0 or an errno.
    pub get_schema: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int>,
    /// Writes the next array; a released one at the end; 0 or an errno.
    pub get_next: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int>,
    /// What went wrong last; may be null.
    pub get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    /// Frees the struct's contents; null where that was done.
    pub release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    /// The maker's own.
    pub private_data: *mut c_void,
}

macro_rules! releasable {
    ($($type:ident { $($field:ident = $empty:expr),* $(,)? })*) => {$(
        impl $type {
            /// One that is released already, to be written over.
            #[must_use]
            pub const fn empty() -> Self {
                Self { $($field: $empty,)* release: None, private_data: std::ptr::null_mut() }
            }

            /// Moves the contents out; what is left is released, so that its maker frees nothing.
            #[must_use]
            pub fn take(&mut self) -> Self {
                std::mem::replace(self, Self::empty())
            }
        }

        impl Drop for $type {
            fn drop(&mut self) {
                if let Some(release) = self.release.take() {
                    self.release = Some(release);
                    // SAFETY: the maker's own function on the maker's own contents, once: it sets
                    // `release` to null, as the interface asks.
                    unsafe { release(self) };
                }
            }
        }

        // SAFETY: the interface lets contents be released and read on any thread.
        unsafe impl Send for $type {}
    )*};
}

releasable! {
    ArrowSchema {
        format = std::ptr::null(),
        name = std::ptr::null(),
        metadata = std::ptr::null(),
        flags = 0,
        n_children = 0,
        children = std::ptr::null_mut(),
        dictionary = std::ptr::null_mut(),
    }
    ArrowArray {
        length = 0,
        null_count = 0,
        offset = 0,
        n_buffers = 0,
        n_children = 0,
        buffers = std::ptr::null_mut(),
        children = std::ptr::null_mut(),
        dictionary = std::ptr::null_mut(),
    }
    ArrowArrayStream {
        get_schema = None,
        get_next = None,
        get_last_error = None,
    }
}
