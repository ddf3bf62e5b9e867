//! The elements of a list that a call was given, held by one tuple until their bytes are read:
//! another thread may change the list meanwhile.

use std::ops::Range;

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::data::data;

/// See the module. A tuple is made and dropped in one go, where a list of references takes two
/// calls of the interpreter for each.
pub struct Elements<'py>(Bound<'py, PyTuple>);

impl<'py> Elements<'py> {
    /// What can be iterated over.
    ///
    /// # Errors
    /// What iterating raises.
    pub fn of(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        match object.cast::<PyList>() {
            Ok(list) => Ok(Self(list.to_tuple())),
            Err(_) => {
                let tuple = object.py().get_type::<PyTuple>().call1((object,))?;
                Ok(Self(tuple.cast_into()?))
            }
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The bytes of the elements at `rows`; what had to be copied is in `owned`.
    ///
    /// # Errors
    /// `TypeError` if one has none; `what` is what the error calls it.
    pub fn column<'a>(
        &'a self,
        rows: Range<usize>,
        owned: &'a mut Vec<Vec<u8>>,
        what: &str,
    ) -> PyResult<Vec<Option<&'a [u8]>>> {
        // Places of what had to be copied, and its number there.
        let mut copies = Vec::new();
        let mut out: Vec<Option<&'a [u8]>> = Vec::with_capacity(rows.len());
        for row in rows {
            let object = self.0.get_borrowed_item(row)?;
            if let Ok(bytes) = <&[u8]>::extract(object) {
                out.push(Some(bytes));
            } else if let Ok(text) = <&str>::extract(object) {
                out.push(Some(text.as_bytes()));
            } else {
                if let Some(bytes) = data(&object, what)? {
                    copies.push(out.len());
                    owned.push(bytes.into_owned());
                }
                out.push(None);
            }
        }
        let owned: &'a [Vec<u8>] = owned;
        for (place, bytes) in copies.into_iter().zip(owned) {
            out[place] = Some(bytes);
        }
        Ok(out)
    }
}
