//! An array's buffers with their lengths, by arrow-rs, and the checks that arrow-rs leaves out.

use std::ops::Range;

use arrow_array::ffi::{FFI_ArrowArray, from_ffi_and_data_type};
use arrow_buffer::ArrowNativeType;
use arrow_data::{ArrayData, layout};
use arrow_schema::DataType;

use super::ImportError;

/// More rows than memory can hold; sizes computed from fewer rows do not overflow.
const MAX_ROWS: usize = 1 << 48;

/// The same for bytes; arrow-rs counts them in bits.
const MAX_BYTES: usize = 1 << 59;

/// The index after an array's last row, counted from the start of its buffers.
pub(super) fn end(array: &FFI_ArrowArray) -> Result<usize, ImportError> {
    // `len` and `offset` return a negative number as a huge one.
    let (rows, offset) = (array.len(), array.offset());
    if rows > MAX_ROWS || offset > MAX_ROWS {
        return Err(ImportError::Invalid("a negative length or offset"));
    }
    Ok(rows + offset)
}

/// Borrows the buffers of an array.
///
/// # Safety
/// The array must not be released before the buffers are dropped.
pub(super) unsafe fn borrow(
    of: &DataType,
    array: &FFI_ArrowArray,
) -> Result<ArrayData, ImportError> {
    // An array without rows may lack buffers.
    if array.is_empty() || *of == DataType::Null {
        return Ok(ArrayData::new_null(of, array.len()));
    }
    check(of, array)?;
    // SAFETY: the copy has no release function, and the caller keeps the array itself.
    let data = unsafe {
        let mut copy = std::ptr::read(array);
        copy.set_release(None);
        from_ffi_and_data_type(copy, of.clone())
    };
    data.map_err(|_| ImportError::Invalid("too few buffers"))
}

/// Checks what arrow-rs relies on without checking it.
fn check(of: &DataType, array: &FFI_ArrowArray) -> Result<(), ImportError> {
    let end = end(array)?;
    let (layout, buffers) = (layout(of), array.num_buffers());
    let least = layout.buffers.len()
        + usize::from(layout.can_contain_null_mask)
        + usize::from(layout.variadic);
    if buffers < least || (buffers > least && !layout.variadic) {
        return Err(ImportError::Invalid("a number of buffers that its type does not have"));
    }
    match of {
        DataType::Binary if end > 0 => check_sizes::<i32>(array, 1, end..end + 1)?,
        DataType::LargeBinary if end > 0 => check_sizes::<i64>(array, 1, end..end + 1)?,
        DataType::BinaryView => check_sizes::<i64>(array, buffers - 1, 0..buffers - least)?,
        DataType::FixedSizeBinary(width) if end.saturating_mul(width.as_usize()) > MAX_BYTES => {
            return Err(ImportError::Invalid("more bytes than there can be"));
        }
        _ => {}
    }
    check_children(of, array, end)
}

/// Does the same for an array's children and dictionary.
fn check_children(of: &DataType, array: &FFI_ArrowArray, end: usize) -> Result<(), ImportError> {
    let fields = match of {
        DataType::List(item) | DataType::LargeList(item) => std::slice::from_ref(item),
        DataType::Struct(fields) => fields,
        DataType::Dictionary(_, values) => {
            let missing = ImportError::Invalid("a dictionary's indices without the dictionary");
            return check(values, array.dictionary().ok_or(missing)?);
        }
        _ => &[],
    };
    if array.num_children() != fields.len() {
        return Err(ImportError::Invalid("children that its type does not have"));
    }
    for (index, field) in fields.iter().enumerate() {
        let child = array.child(index);
        check(field.data_type(), child)?;
        if matches!(of, DataType::Struct(_)) && child.len() < end {
            return Err(ImportError::Invalid("a column with too few rows"));
        }
    }
    Ok(())
}

/// Checks the numbers that arrow-rs takes for the sizes of buffers: aligned, and not negative.
fn check_sizes<T: ArrowNativeType>(
    array: &FFI_ArrowArray,
    index: usize,
    mut places: Range<usize>,
) -> Result<(), ImportError> {
    let sizes = array.buffer(index).cast::<T>();
    if !places.is_empty() && (sizes.is_null() || !sizes.is_aligned()) {
        return Err(ImportError::Invalid("offsets or sizes that are missing or not aligned"));
    }
    // SAFETY: the maker vouches for an offset after each row, and for a size of each view buffer.
    match places.all(|place| unsafe { *sizes.add(place) }.to_usize().is_some()) {
        true => Ok(()),
        false => Err(ImportError::Invalid("a negative offset or size")),
    }
}
