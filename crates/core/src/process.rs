//! Which process this is, without a system call each time: a fork is noticed by a handler that the child runs.
#![allow(unsafe_code)]

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// The process's number, 0 where it must be asked for: at the start, and in a child after a fork.
static KNOWN: AtomicU32 = AtomicU32::new(0);
static HANDLER: Once = Once::new();

extern "C" fn forget() {
    KNOWN.store(0, Ordering::Relaxed);
}

/// The number of the calling process. Costs a load; a fork changes it.
pub(crate) fn id() -> u32 {
    match KNOWN.load(Ordering::Relaxed) {
        0 => ask(),
        known => known,
    }
}

#[cold]
fn ask() -> u32 {
    let mut is_watched = true;
    HANDLER.call_once(|| {
        // SAFETY: the handler only stores to an atomic, which is allowed in the child of a fork of a process with
        // threads; it is never unloaded before the process ends, because shared objects that hold it are not.
        is_watched = unsafe { libc::pthread_atfork(None, None, Some(forget)) } == 0;
    });
    let id = std::process::id();
    if is_watched {
        KNOWN.store(id, Ordering::Relaxed);
    }
    id
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_is_the_system_s_number() {
        assert_eq!(super::id(), std::process::id());
        assert_eq!(super::id(), std::process::id());
    }
}
