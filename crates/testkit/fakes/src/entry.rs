//! The one way into every exported function: counting, planned failures, stub mode, forks, initialisation, context.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::status::{Answer, NOT_INITIALIZED, NOT_PERMITTED, Refusal, STUB_LIBRARY, UNKNOWN};
use crate::{cells, context, script, violations};

/// What must be in place before a function does anything.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// Nothing; works even in a forked child.
    Nothing,
    /// The process is not the forked child of one that initialised the driver.
    Process,
    /// `cuInit` has succeeded.
    Init,
    /// A context is current on the thread.
    Context,
}

/// The process that initialised the driver; 0 while none has.
static OWNER: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// Notes that this process has initialised the driver.
pub(crate) fn initialise() -> Result<(), Refusal> {
    if cells::DEVICES.get() <= 0 {
        return Err(crate::status::NO_DEVICE);
    }
    OWNER.store(std::process::id(), Ordering::SeqCst);
    Ok(())
}

/// Runs a callback of the program on the calling (stream's) thread, from where it may not call the driver.
pub(crate) fn in_callback(callback: impl FnOnce()) {
    IN_CALLBACK.set(true);
    callback();
    IN_CALLBACK.set(false);
}

fn admit(need: Need, owner: u32) -> Result<(), Refusal> {
    if cells::STUB.get() != 0 {
        return Err(STUB_LIBRARY);
    }
    if IN_CALLBACK.get() && need > Need::Nothing {
        violations::violation("the driver was called from a stream's callback".to_owned());
        return Err(NOT_PERMITTED);
    }
    if need >= Need::Init && owner == 0 {
        return Err(NOT_INITIALIZED);
    }
    if need >= Need::Context {
        context::current()?;
    }
    Ok(())
}

/// Runs the body of an exported function, unless something speaks against it.
pub(crate) fn enter<T, R: Answer<T>>(
    symbol: &'static str,
    need: Need,
    body: impl FnOnce() -> Result<T, Refusal>,
) -> R {
    let owner = OWNER.load(Ordering::SeqCst);
    // First, because in a forked child every lock may be held by a thread that is not there.
    if owner != 0 && owner != std::process::id() {
        return R::answer(if need == Need::Nothing { body() } else { Err(NOT_INITIALIZED) });
    }
    if let Some(status) = script::arrive(symbol) {
        return R::answer(Err(R::planned(status)));
    }
    let body = || admit(need, owner).and_then(|()| body());
    R::answer(catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(UNKNOWN)))
}

/// Exports functions under C names. Each line: what it needs, the name, the function behind it, the C return type.
macro_rules! exports {
    ($( $need:ident $symbol:literal = $function:ident($($arg:ident: $ty:ty),*) -> $ret:ty; )*) => {
        /// The names exported here.
        pub(crate) const SYMBOLS: &[&str] = &[$($symbol),*];
        $( const _: () = {
            // The name is the C function's own, exported once, by a library that is only ever loaded by path.
            #[unsafe(export_name = $symbol)]
            extern "C" fn exported($($arg: $ty),*) -> $ret {
                $crate::entry::enter($symbol, $crate::entry::Need::$need, || $function($($arg),*))
            }
        }; )*
    };
}
pub(crate) use exports;
