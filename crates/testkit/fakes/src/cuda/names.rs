//! Versions and the words for statuses.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int};

use crate::cells;
use crate::entry::exports;
use crate::status::{INVALID_VALUE, Out, Refusal};

exports! {
    Nothing "cuDriverGetVersion" = driver_version(out: Out<c_int>) -> c_int;
    Nothing "cuGetErrorName" = error_name(status: c_int, out: Out<*const c_char>) -> c_int;
    Nothing "cuGetErrorString" = error_string(status: c_int, out: Out<*const c_char>) -> c_int;
}

fn driver_version(out: Out<c_int>) -> Result<(), Refusal> {
    out.set(c_int::try_from(cells::DRIVER_VERSION.get()).map_err(|_| INVALID_VALUE)?)
}

fn error_name(status: c_int, out: Out<*const c_char>) -> Result<(), Refusal> {
    answer(out, words(status).map(|(name, _)| name))
}

fn error_string(status: c_int, out: Out<*const c_char>) -> Result<(), Refusal> {
    answer(out, words(status).map(|(_, text)| text))
}

fn answer(out: Out<*const c_char>, text: Option<&'static CStr>) -> Result<(), Refusal> {
    out.set(text.map_or(std::ptr::null(), CStr::as_ptr))?;
    text.map(|_| ()).ok_or(INVALID_VALUE)
}

fn words(status: c_int) -> Option<(&'static CStr, &'static CStr)> {
    Some(match status {
        0 => (c"CUDA_SUCCESS", c"no error"),
        1 => (c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
        2 => (c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
        3 => (c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error"),
        4 => (c"CUDA_ERROR_DEINITIALIZED", c"driver shutting down"),
        34 => (c"CUDA_ERROR_STUB_LIBRARY", c"CUDA driver is a stub library"),
        100 => (c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected"),
        101 => (c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal"),
        201 => (c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context"),
        400 => (c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle"),
        500 => (c"CUDA_ERROR_NOT_FOUND", c"named symbol not found"),
        600 => (c"CUDA_ERROR_NOT_READY", c"device not ready"),
        700 => (c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access was encountered"),
        712 => (
            c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
            c"part or all of the requested memory range is already mapped",
        ),
        713 => (
            c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
            c"pointer does not correspond to a registered memory region",
        ),
        719 => (c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure"),
        800 => (c"CUDA_ERROR_NOT_PERMITTED", c"operation not permitted"),
        801 => (c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported"),
        999 => (c"CUDA_ERROR_UNKNOWN", c"unknown error"),
        _ => return None,
    })
}
