//! How much each loop has to do, as those see it who choose one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a loop has on its hands, as others see it; counted off when it is dropped.
#[derive(Debug)]
pub(crate) struct Weight {
    load: Arc<AtomicUsize>,
    weight: usize,
}

impl Weight {
    /// Counts `weight` on.
    pub(super) fn new(load: &Arc<AtomicUsize>, weight: usize) -> Arc<Self> {
        load.fetch_add(weight, Ordering::Relaxed);
        Arc::new(Self { load: load.clone(), weight })
    }
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.load.fetch_sub(self.weight, Ordering::Relaxed);
    }
}
