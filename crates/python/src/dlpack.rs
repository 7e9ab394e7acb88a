//! The memory that an object lends by DLPack (version 1.1, and the unversioned form before it).
//!
//! The capsule is held and never consumed: its own destructor frees the tensor when we let go of it.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

use kvikio::Place;
use kvikio_sys::cuda::Stream;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::types::{PyCapsule, PyCapsuleMethods, PyDict};
use pyo3::{intern, prelude::*};

use crate::extent::{Extent, is_block, unusable};

const CPU: i32 = 1;
const CUDA: i32 = 2;
const CUDA_HOST: i32 = 3;
const CUDA_MANAGED: i32 = 13;
const READ_ONLY: u64 = 1;
const UNVERSIONED: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";

/// `DLTensor` of `dlpack.h`.
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    type_code: u8,
    type_bits: u8,
    type_lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

/// `DLManagedTensorVersioned` of `dlpack.h`, version 1.
#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    manager: *mut c_void,
    deleter: *mut c_void,
    flags: u64,
    tensor: Tensor,
}

/// The memory and the capsule that keeps it, `None` where the object has no DLPack.
pub(crate) fn capsule<'py>(obj: &Bound<'py, PyAny>) -> PyResult<Option<(Extent, Bound<'py, PyAny>)>> {
    let py = obj.py();
    let Some(device) = obj.getattr_opt(intern!(py, "__dlpack_device__"))? else { return Ok(None) };
    let (kind, _ordinal): (i32, i32) = device.call0()?.extract()?;
    let place = match kind {
        CPU | CUDA_HOST => Place::Host,
        // A producer that is not told a stream orders its work before the legacy default stream.
        CUDA | CUDA_MANAGED => Place::Ask { after: Stream(0) },
        other => return Err(unusable(format!("memory of a DLPack device of type {other} is not supported"))),
    };
    let export = obj.getattr(intern!(py, "__dlpack__"))?;
    let versions = PyDict::new(py);
    versions.set_item("max_version", (1, 1))?;
    let capsule = match export.call((), Some(&versions)) {
        // Producers from before version 1 do not know the argument.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => export.call0()?,
        other => other?,
    };
    let capsule = capsule.cast_into::<PyCapsule>()?;
    let (tensor, flags) = tensor(&capsule)?;
    let extent = extent(tensor, place, flags & READ_ONLY != 0)?;
    Ok(Some((extent, capsule.into_any())))
}

/// The tensor in a capsule, and its flags. It lives as long as the capsule, which the caller holds.
fn tensor<'a>(capsule: &'a Bound<'_, PyCapsule>) -> PyResult<(&'a Tensor, u64)> {
    if capsule.is_valid_checked(Some(UNVERSIONED)) {
        let tensor: NonNull<Tensor> = capsule
            .pointer_checked(Some(UNVERSIONED))
            .map_err(|_other_name| unusable("the DLPack capsule has been used already".to_owned()))?
            .cast();
        // SAFETY: a capsule of this name holds a `DLManagedTensor`, which begins with its tensor (DLPack), and the
        // producer keeps it until the capsule ends.
        return Ok((unsafe { tensor.as_ref() }, 0));
    }
    let managed: NonNull<Versioned> = capsule.pointer_checked(Some(VERSIONED))?.cast();
    // SAFETY: a capsule of this name begins with its version whatever that is (DLPack).
    let major = unsafe { managed.cast::<u32>().read() };
    if major != 1 {
        return Err(unusable(format!("DLPack version {major} is not supported")));
    }
    // SAFETY: of major version 1 it is a `DLManagedTensorVersioned`, which lives until the capsule ends (DLPack).
    let managed = unsafe { managed.as_ref() };
    Ok((&managed.tensor, managed.flags))
}

fn extent(tensor: &Tensor, place: Place, is_read_only: bool) -> PyResult<Extent> {
    let too_large = || PyOverflowError::new_err("the tensor is larger than memory can be");
    let ndim = usize::try_from(tensor.ndim)?;
    let shape = axes(tensor.shape, ndim).unwrap_or_default();
    let shape: Vec<usize> = shape.iter().map(|extent| usize::try_from(*extent)).collect::<Result<_, _>>()?;
    let bits = usize::from(tensor.type_bits) * usize::from(tensor.type_lanes);
    let items = shape.iter().try_fold(1usize, |items, extent| items.checked_mul(*extent));
    let total_bits = items.and_then(|items| items.checked_mul(bits)).ok_or_else(too_large)?;
    if total_bits % 8 != 0 {
        return Err(unusable("a tensor that ends within a byte is not supported".to_owned()));
    }
    // DLPack counts strides in items; so does a comparison with items of size 1.
    let is_contiguous = axes(tensor.strides, ndim).is_none_or(|strides| {
        let strides: Vec<isize> =
            strides.iter().map(|stride| isize::try_from(*stride).unwrap_or(-1)).collect();
        is_block(&shape, &strides, 1)
    });
    let start = tensor.data.expose_provenance().checked_add(usize::try_from(tensor.byte_offset)?);
    let (address, len) = (start.ok_or_else(too_large)?, total_bits / 8);
    Ok(Extent { address, len, place, is_read_only, is_contiguous })
}

fn axes<'a>(first: *const i64, ndim: usize) -> Option<&'a [i64]> {
    if first.is_null() || ndim == 0 {
        return None;
    }
    // SAFETY: `shape`, and `strides` where it is not null, hold `ndim` numbers (DLPack); used while the capsule is held.
    Some(unsafe { std::slice::from_raw_parts(first, ndim) })
}
