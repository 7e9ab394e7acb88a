//! Steers an instance of the doubles and reads its counters.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;

use libloading::Library;

/// The control functions of one instance. Its settings and counters are shared by all tests that use that instance.
#[derive(Debug, Clone, Copy)]
pub struct Control {
    library: &'static Library,
}

impl Control {
    pub(crate) fn open(path: &Path) -> Self {
        // SAFETY: the library is our own double; its initialiser only reads an environment variable.
        let library = unsafe { Library::new(path) }.expect("the double's library");
        // Its threads run until the process ends, so it is never unloaded.
        Self { library: Box::leak(Box::new(library)) }
    }

    fn function<F: Copy>(&self, name: &str) -> F {
        // SAFETY: each caller below names the type that the function has in the doubles' control interface.
        let function = unsafe { self.library.get::<F>(name.as_bytes()) };
        *function.expect("a control function")
    }

    /// Changes a setting, such as `devices` or `copy_delay_us`.
    ///
    /// # Panics
    /// Where there is no setting of that name.
    pub fn set(&self, key: &str, value: i64) {
        let key = c_string(key);
        let set: unsafe extern "C" fn(*const c_char, i64) -> c_int = self.function("kvikio_fake_set");
        // SAFETY: a terminated string.
        let outcome = unsafe { set(key.as_ptr(), value) };
        assert_eq!(outcome, 0, "the doubles have no setting {key:?}");
    }

    /// Plans that the `nth` call from now of `symbol` answers `status` (1 is the next; 0: every call; -1: forget all
    /// plans). For a function of cuFile, a status below 5000 is an `errno` where it moves bytes, else one of CUDA's.
    ///
    /// # Panics
    /// Where the doubles have no such function.
    pub fn fail(&self, symbol: &str, nth: i64, status: i32) {
        let symbol = c_string(symbol);
        let fail: unsafe extern "C" fn(*const c_char, i64, i32) -> c_int = self.function("kvikio_fake_fail");
        // SAFETY: a terminated string.
        let outcome = unsafe { fail(symbol.as_ptr(), nth, status) };
        assert_eq!(outcome, 0, "the doubles have no function {symbol:?}");
    }

    /// How often `symbol` was called.
    ///
    /// # Panics
    /// Where the doubles have no such function.
    #[must_use]
    pub fn calls(&self, symbol: &str) -> i64 {
        self.number("kvikio_fake_calls", symbol)
    }

    /// A counter, such as `violations` or `live_allocations`.
    ///
    /// # Panics
    /// Where there is no counter of that name.
    #[must_use]
    pub fn counter(&self, name: &str) -> i64 {
        self.number("kvikio_fake_counter", name)
    }

    fn number(&self, function: &str, name: &str) -> i64 {
        let text = c_string(name);
        let ask: unsafe extern "C" fn(*const c_char) -> i64 = self.function(function);
        // SAFETY: a terminated string.
        let answer = unsafe { ask(text.as_ptr()) };
        // The only counter of which a negative value makes sense counts pops without a push.
        assert!(answer != -1 || name == "contexts_pushed", "the doubles know no {name:?}");
        answer
    }

    /// The first breach of the rules, in words.
    ///
    /// # Panics
    /// Where the library is not ours.
    #[must_use]
    pub fn violation(&self) -> Option<String> {
        let ask: unsafe extern "C" fn(*mut u8, usize) -> usize = self.function("kvikio_fake_violation");
        let mut text = vec![0u8; 4096];
        // SAFETY: a buffer of the length that is passed.
        let len = unsafe { ask(text.as_mut_ptr(), text.len()) };
        text.truncate(len.min(4095));
        (len > 0).then(|| String::from_utf8_lossy(&text).into_owned())
    }

    /// The `len` bytes of device memory at `address`, past all streams.
    ///
    /// # Panics
    /// Where they are not all in one device allocation.
    #[must_use]
    pub fn peek(&self, address: u64, len: usize) -> Vec<u8> {
        let peek: unsafe extern "C" fn(u64, *mut c_void, usize) -> c_int = self.function("kvikio_fake_peek");
        let mut bytes = vec![0u8; len];
        // SAFETY: a buffer of the length that is passed; the doubles check the address.
        let outcome = unsafe { peek(address, bytes.as_mut_ptr().cast(), len) };
        assert_eq!(outcome, 0, "no device memory of {len} bytes at {address:#x}");
        bytes
    }

    /// Puts `bytes` into device memory at `address`, past all streams.
    ///
    /// # Panics
    /// Where they do not all fit into one device allocation.
    pub fn poke(&self, address: u64, bytes: &[u8]) {
        let poke: unsafe extern "C" fn(u64, *const c_void, usize) -> c_int =
            self.function("kvikio_fake_poke");
        // SAFETY: a buffer of the length that is passed; the doubles check the address.
        let outcome = unsafe { poke(address, bytes.as_ptr().cast(), bytes.len()) };
        assert_eq!(outcome, 0, "no device memory of {} bytes at {address:#x}", bytes.len());
    }

    /// Puts settings, plans, call counts and violations back to what they are at load, the environment apart. What is
    /// alive stays alive.
    ///
    /// # Panics
    /// Where the library is not ours.
    pub fn reset(&self) {
        let reset: unsafe extern "C" fn() = self.function("kvikio_fake_reset");
        // SAFETY: no arguments; may be called on any thread.
        unsafe { reset() };
    }
}

fn c_string(text: &str) -> CString {
    CString::new(text).expect("a name without NUL")
}
