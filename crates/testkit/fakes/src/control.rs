//! The control interface: C functions named `kvikio_fake_*`, and the environment variable read when the library loads.
//!
//! `KVIKIO_FAKE="devices=1,nvfs_major=2,fail:cuMemHostAlloc=3:2"` sets settings and plans failures (symbol, which call,
//! status), so that a program of its own can be driven.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::status::Out;
use crate::{cells, cuda, cufile, memory, script, violations};

/// Set once the library is loaded, before any function can be called.
// The section holds pointers to functions with C's calling convention, which the loader runs once.
#[unsafe(link_section = ".init_array")]
#[used]
static LOAD: extern "C" fn() = load;

extern "C" fn load() {
    let Ok(text) = std::env::var("KVIKIO_FAKE") else { return };
    for item in text.split(',').filter(|item| !item.is_empty()) {
        if apply(item).is_none() {
            violations::violation(format!("KVIKIO_FAKE: cannot read {item:?}"));
        }
    }
}

fn apply(item: &str) -> Option<()> {
    let (name, value) = item.split_once('=')?;
    if let Some(symbol) = name.strip_prefix("fail:") {
        let (nth, status) = value.split_once(':')?;
        if !is_exported(symbol) {
            return None;
        }
        script::plan(symbol, nth.parse().ok()?, status.parse().ok()?);
        return Some(());
    }
    cells::setting(name)?.set(value.parse().ok()?);
    Some(())
}

fn is_exported(symbol: &str) -> bool {
    cuda::SYMBOLS.iter().chain(cufile::SYMBOLS).any(|symbols| symbols.contains(&symbol))
}

/// The text of a C string argument.
///
/// The caller of the exported function guarantees that a non-null pointer is a terminated string.
fn text<'a>(argument: *const c_char) -> Option<&'a str> {
    if argument.is_null() {
        return None;
    }
    // SAFETY: not null, and a terminated string by the guarantee of the exported function's caller.
    unsafe { CStr::from_ptr(argument) }.to_str().ok()
}

/// Changes a setting; 0, or -1 where there is none of that name.
#[unsafe(no_mangle)]
extern "C" fn kvikio_fake_set(key: *const c_char, value: i64) -> c_int {
    match text(key).and_then(cells::setting) {
        Some(setting) => {
            setting.set(value);
            0
        }
        None => -1,
    }
}

/// Plans that the `nth` call from now of `symbol` answers `status`; 0: every call; -1: forget the plans. Answers 0, or
/// -1 where the doubles have no such function.
#[unsafe(no_mangle)]
extern "C" fn kvikio_fake_fail(symbol: *const c_char, nth: i64, status: i32) -> c_int {
    match text(symbol).filter(|symbol| is_exported(symbol)) {
        Some(symbol) => {
            script::plan(symbol, nth, status);
            0
        }
        None => -1,
    }
}

/// How often `symbol` was called; -1 where the doubles have no such function.
#[unsafe(no_mangle)]
extern "C" fn kvikio_fake_calls(symbol: *const c_char) -> i64 {
    text(symbol).filter(|symbol| is_exported(symbol)).map_or(-1, script::calls)
}

/// A gauge; -1 where there is none of that name.
#[unsafe(no_mangle)]
extern "C" fn kvikio_fake_counter(name: *const c_char) -> i64 {
    text(name).and_then(cells::gauge).map_or(-1, cells::Cell::get)
}

/// Writes the first violation's text, cut to `len` and terminated; answers its whole length, 0 where there is none.
#[unsafe(no_mangle)]
extern "C" fn kvikio_fake_violation(buffer: Out<u8>, len: usize) -> usize {
    let text = violations::first().unwrap_or_default();
    if let Some(room) = len.checked_sub(1) {
        for (index, byte) in text.bytes().take(room).chain([0]).enumerate() {
            buffer.at(index).offer(byte);
        }
    }
    text.len()
}

/// Reads device memory past all streams; 0, or 1 where the range is in no allocation.
#[unsafe(no_mangle)]
extern "C" fn kvikio_fake_peek(address: u64, to: *mut c_void, len: usize) -> c_int {
    touch(address, len, |pages, at| pages.load_to(at, to as usize, len))
}

/// Changes device memory past all streams; 0, or 1 where the range is in no allocation.
#[unsafe(no_mangle)]
extern "C" fn kvikio_fake_poke(address: u64, from: *const c_void, len: usize) -> c_int {
    touch(address, len, |pages, at| pages.store_from(at, from as usize, len))
}

fn touch(
    address: u64,
    len: usize,
    act: impl FnOnce(&crate::pages::Pages, usize) -> std::io::Result<()>,
) -> c_int {
    let Some(allocation) = memory::find(address).filter(|found| found.contains(address, len)) else {
        return 1;
    };
    let (Some(pages), Ok(at)) = (allocation.pages(), usize::try_from(address - allocation.address)) else {
        return 1;
    };
    c_int::from(act(pages, at).is_err())
}

/// Settings, plans, call counts and violations as at load, the environment apart. What is alive stays alive.
#[unsafe(no_mangle)]
extern "C" fn kvikio_fake_reset() {
    cells::restore();
    violations::clear();
    script::clear();
}
