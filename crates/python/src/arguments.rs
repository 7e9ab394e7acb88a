//! Whole numbers out of Python objects, with the errors that KvikIO's users know.

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;

/// A number of bytes, or a place in a file: an `int`, or anything with `__index__`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Count(pub(crate) u64);

impl<'py> FromPyObject<'_, 'py> for Count {
    type Error = PyErr;

    fn extract(obj: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        obj.extract::<u64>().map(Count).map_err(|error| {
            let py = obj.py();
            if !error.is_instance_of::<PyOverflowError>(py) {
                return PyTypeError::new_err(format!("an integer is required, not {}", type_name(&obj)));
            }
            let is_negative = obj.lt(0).unwrap_or(false);
            PyOverflowError::new_err(match is_negative {
                true => "can't convert negative value to size_t",
                false => "Python int too large to convert to C unsigned long",
            })
        })
    }
}

/// The name of an object's class, for messages.
pub(crate) fn type_name(obj: &Bound<'_, PyAny>) -> String {
    obj.get_type().name().map_or_else(|_| "object".to_owned(), |name| format!("'{name}'"))
}
