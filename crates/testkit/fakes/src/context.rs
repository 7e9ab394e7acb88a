//! Devices, their primary contexts, and each thread's stack of current contexts.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::cells;
use crate::lock::lock;
use crate::status::{INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE, Refusal};

const FIRST_HANDLE: usize = 0x0C0D_E000;

/// How often each device's primary context is retained.
static RETAINED: Mutex<BTreeMap<i32, u32>> = Mutex::new(BTreeMap::new());

thread_local! {
    static STACK: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Whether there is such a device.
pub(crate) fn check_device(device: i32) -> Result<(), Refusal> {
    if (0..cells::DEVICES.get()).contains(&i64::from(device)) { Ok(()) } else { Err(INVALID_DEVICE) }
}

/// The handle of a device's primary context.
pub(crate) fn handle_of(device: i32) -> usize {
    FIRST_HANDLE + (usize::try_from(device).unwrap_or(0) + 1) * 0x10
}

/// The device of a context, which must be retained.
pub(crate) fn device_of(context: usize) -> Result<i32, Refusal> {
    let retained = lock(&RETAINED);
    let found = retained.iter().find(|(device, count)| **count > 0 && handle_of(**device) == context);
    found.map(|(device, _)| *device).ok_or(INVALID_CONTEXT)
}

/// Retains a device's primary context.
pub(crate) fn retain(device: i32) -> Result<usize, Refusal> {
    check_device(device)?;
    *lock(&RETAINED).entry(device).or_default() += 1;
    Ok(handle_of(device))
}

/// Releases a device's primary context.
pub(crate) fn release(device: i32) -> Result<(), Refusal> {
    check_device(device)?;
    match lock(&RETAINED).get_mut(&device) {
        Some(count) if *count > 0 => *count -= 1,
        _ => return Err(INVALID_CONTEXT),
    }
    Ok(())
}

/// The context on top of the thread's stack, 0 where there is none.
pub(crate) fn top() -> usize {
    STACK.with_borrow(|stack| stack.last().copied().unwrap_or(0))
}

/// The device of the thread's current context.
pub(crate) fn current() -> Result<i32, Refusal> {
    device_of(top())
}

pub(crate) fn push(context: usize) -> Result<(), Refusal> {
    if context == 0 {
        return Err(INVALID_VALUE);
    }
    device_of(context)?;
    STACK.with_borrow_mut(|stack| stack.push(context));
    cells::CONTEXTS_PUSHED.add(1);
    Ok(())
}

pub(crate) fn pop() -> Result<usize, Refusal> {
    let popped = STACK.with_borrow_mut(Vec::pop).ok_or(INVALID_CONTEXT)?;
    cells::CONTEXTS_PUSHED.add(-1);
    Ok(popped)
}

/// Replaces the topmost context; 0 only takes it off.
pub(crate) fn set(context: usize) -> Result<(), Refusal> {
    if context != 0 {
        device_of(context)?;
    }
    STACK.with_borrow_mut(|stack| {
        let had = stack.pop().is_some();
        stack.extend((context != 0).then_some(context));
        cells::CONTEXTS_PUSHED.add(i64::from(context != 0) - i64::from(had));
    });
    Ok(())
}
