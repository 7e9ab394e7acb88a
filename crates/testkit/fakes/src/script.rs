//! Call counts by symbol, and the failures that a test has planned.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::lock::lock;

#[derive(Default)]
struct Line {
    calls: i64,
    /// Failures by call number.
    planned: BTreeMap<i64, i32>,
    /// What every call answers.
    always: Option<i32>,
}

static LINES: Mutex<BTreeMap<String, Line>> = Mutex::new(BTreeMap::new());

/// Counts a call; answers the status that it must fail with, if a test planned that.
pub(crate) fn arrive(symbol: &str) -> Option<i32> {
    with_line(symbol, |line| {
        line.calls += 1;
        line.planned.remove(&line.calls).or(line.always)
    })
}

/// Plans that the `nth` call from now (1 is the next) answers `status`; 0: every call; -1: forget all plans.
pub(crate) fn plan(symbol: &str, nth: i64, status: i32) {
    with_line(symbol, |line| match nth {
        0 => line.always = Some(status),
        1.. => {
            line.planned.insert(line.calls + nth, status);
        }
        _ => {
            line.always = None;
            line.planned.clear();
        }
    });
}

/// How often `symbol` was called.
pub(crate) fn calls(symbol: &str) -> i64 {
    with_line(symbol, |line| line.calls)
}

/// Forgets counts and plans.
pub(crate) fn clear() {
    lock(&LINES).clear();
}

fn with_line<T>(symbol: &str, f: impl FnOnce(&mut Line) -> T) -> T {
    let mut lines = lock(&LINES);
    if !lines.contains_key(symbol) {
        lines.insert(symbol.to_owned(), Line::default());
    }
    match lines.get_mut(symbol) {
        Some(line) => f(line),
        None => f(&mut Line::default()),
    }
}
