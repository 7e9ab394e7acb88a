//! Where the memory that an object lends is, whatever way it said so.

use kvikio::Place;
use pyo3::PyErr;
use pyo3::exceptions::PyBufferError;

/// Where a piece of memory is, as the object says.
pub(crate) struct Extent {
    pub(crate) address: usize,
    pub(crate) len: usize,
    pub(crate) place: Place,
    pub(crate) is_read_only: bool,
    pub(crate) is_contiguous: bool,
}

/// True where the items lie one after the other, in C or in Fortran order. An axis of one item may have any stride.
pub(crate) fn is_block(shape: &[usize], strides: &[isize], item: usize) -> bool {
    fn runs<'a>(axes: impl Iterator<Item = (&'a usize, &'a isize)>, item: usize) -> bool {
        let mut expected = item;
        axes.filter(|(extent, _)| **extent != 1).all(|(extent, stride)| {
            let is_next = usize::try_from(*stride) == Ok(expected);
            expected = expected.saturating_mul(*extent);
            is_next
        })
    }
    let axes = || shape.iter().zip(strides);
    shape.contains(&0) || runs(axes().rev(), item) || runs(axes(), item)
}

/// The error of an object that lends memory of a kind we have no use for.
pub(crate) fn unusable(why: String) -> PyErr {
    PyBufferError::new_err(why)
}
