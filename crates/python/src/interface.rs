//! The memory that an object lends by `__cuda_array_interface__` (version 3, and those before it).

use kvikio::Place;
use kvikio_sys::cuda::Stream;
use pyo3::exceptions::{PyKeyError, PyNotImplementedError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::types::{PyDict, PyTuple};
use pyo3::{intern, prelude::*};

use crate::arguments::{Count, type_name};
use crate::extent::{Extent, is_block};

/// The memory that `__cuda_array_interface__` names, `None` where the object has none.
pub(crate) fn extent(obj: &Bound<'_, PyAny>) -> PyResult<Option<Extent>> {
    let py = obj.py();
    let Some(interface) = obj.getattr_opt(intern!(py, "__cuda_array_interface__"))? else { return Ok(None) };
    if interface.is_none() {
        return Ok(None);
    }
    let interface = interface
        .cast_into::<PyDict>()
        .map_err(|_| PyTypeError::new_err("__cuda_array_interface__ must be a dict"))?;
    let optional = |key: &str| Ok::<_, PyErr>(interface.get_item(key)?.filter(|value| !value.is_none()));
    let required = |key: &str| interface.get_item(key)?.ok_or_else(|| PyKeyError::new_err(key.to_owned()));
    if optional("mask")?.is_some() {
        return Err(PyNotImplementedError::new_err("mask attribute not supported"));
    }
    let (address, is_read_only): (Count, Bound<'_, PyAny>) = required("data")?.extract()?;
    let is_read_only = is_read_only.is_truthy()?;
    let item = item_size(&required("typestr")?)?;
    let shape: Vec<usize> = numbers(&required("shape")?, "shape")?;
    let strides: Option<Vec<isize>> = match optional("strides")? {
        Some(strides) => Some(numbers(&strides, "strides")?),
        None => None,
    };
    if strides.as_ref().is_some_and(|strides| strides.len() != shape.len()) {
        return Err(PyValueError::new_err("The length of shape and strides must be equal"));
    }
    let len = shape.iter().try_fold(item, |len, extent| len.checked_mul(*extent));
    let len = len.ok_or_else(|| PyOverflowError::new_err("the array is larger than memory can be"))?;
    let after = match optional("stream")? {
        Some(stream) => stream.extract::<Count>()?.0,
        None => 1,
    };
    Ok(Some(Extent {
        address: usize::try_from(address.0)?,
        len,
        // The interface's 1 is the legacy default stream, which the driver also knows as 0.
        place: Place::Ask { after: Stream(if after == 1 { 0 } else { usize::try_from(after)? }) },
        is_read_only,
        is_contiguous: strides.is_none_or(|strides| is_block(&shape, &strides, item)),
    }))
}

fn numbers<'py, T>(value: &Bound<'py, PyAny>, what: &str) -> PyResult<Vec<T>>
where
    T: for<'a> FromPyObject<'a, 'py>,
{
    let tuple = value
        .cast::<PyTuple>()
        .map_err(|_| PyTypeError::new_err(format!("{what} must be a tuple, not {}", type_name(value))))?;
    tuple.iter().map(|number| number.extract::<T>().map_err(Into::into)).collect()
}

/// The bytes of one item of a type that is written as NumPy writes it, for instance `<f4`.
fn item_size(typestr: &Bound<'_, PyAny>) -> PyResult<usize> {
    if typestr.is_none() {
        return Err(PyValueError::new_err("Expected `str`, but got `None`"));
    }
    let text: String = typestr.extract()?;
    let (order, kind) = text.split_at_checked(1).unwrap_or(("?", &text));
    match (order, kind) {
        _ if text.is_empty() => Err(PyValueError::new_err("Got unexpected empty `str`")),
        ("|" | "<" | ">", "b1" | "i1" | "u1") => Ok(1),
        ("<" | ">", "i2" | "u2" | "f2") => Ok(2),
        ("<" | ">", "i4" | "u4" | "f4") => Ok(4),
        ("<" | ">", "i8" | "u8" | "f8" | "c8") => Ok(8),
        ("<" | ">", "f16" | "c16") => Ok(16),
        ("<" | ">", "c32") => Ok(32),
        _ => {
            let py = typestr.py();
            let numpy = py.import("numpy").map_err(|_| {
                PyValueError::new_err(format!("the size of {text:?} is known to NumPy only: install NumPy"))
            })?;
            numpy.call_method1("dtype", (text,))?.getattr("itemsize")?.extract()
        }
    }
}
