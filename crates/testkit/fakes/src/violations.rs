//! Breaches of the rules by the program under test.

use std::sync::Mutex;

use crate::cells::VIOLATIONS;
use crate::lock::lock;

static TEXTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Records a breach.
pub(crate) fn violation(text: String) {
    VIOLATIONS.add(1);
    lock(&TEXTS).push(text);
}

/// The first one's text.
pub(crate) fn first() -> Option<String> {
    lock(&TEXTS).first().cloned()
}

/// Forgets the texts.
pub(crate) fn clear() {
    lock(&TEXTS).clear();
}
