//! A source in memory: the oracle of tests, and a file for those who have none.
#![allow(unsafe_code)]

use std::sync::{PoisonError, RwLock};

use crate::engine::source::{Abilities, Access, Source};
use crate::error::{Error, Result};
use crate::memory::buf::{lend, lend_mut};
use crate::memory::span::Span;

/// Bytes in memory that can be read and written at offsets, and that grow as a file does.
///
/// ```
/// use std::sync::Arc;
/// use kvikio::{Engine, File, InMemory, Options};
/// # fn main() -> kvikio::Result<()> {
/// let file = File::of(Arc::new(InMemory::from(b"abcdef".to_vec())), Engine::shared().clone(), Options::default());
/// let mut buf = [0; 3];
/// assert_eq!(file.read_into(&mut buf, 2)?, 3);
/// assert_eq!(&buf, b"cde");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct InMemory {
    bytes: RwLock<Vec<u8>>,
}

impl From<Vec<u8>> for InMemory {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes: RwLock::new(bytes) }
    }
}

impl InMemory {
    /// A copy of all bytes.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        self.bytes.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

// SAFETY: bytes are copied within the call; `take` only reads the span.
unsafe impl Source for InMemory {
    fn subject(&self) -> String {
        "memory".to_owned()
    }

    fn abilities(&self) -> Abilities {
        Abilities { read: true, write: true, alignment: 1 }
    }

    fn fill(&self, offset: u64, span: Span, _access: Access<'_>) -> Result<usize> {
        let bytes = self.bytes.read().unwrap_or_else(PoisonError::into_inner);
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        Ok(bytes.get(start..).map_or(0, |rest| span.copy_from(&lend(rest))))
    }

    fn take(&self, offset: u64, span: Span, _access: Access<'_>) -> Result<()> {
        let mut bytes = self.bytes.write().unwrap_or_else(PoisonError::into_inner);
        let end = usize::try_from(offset).ok().and_then(|start| start.checked_add(span.len()));
        let (Ok(start), Some(end)) = (usize::try_from(offset), end) else {
            return Err(Error::from_os("write", libc::EFBIG));
        };
        if bytes.len() < end {
            let more = end - bytes.len();
            bytes.try_reserve(more).map_err(|_| Error::from_os("write", libc::ENOMEM))?;
            bytes.resize(end, 0);
        }
        if let Some(place) = bytes.get_mut(start..end) {
            lend_mut(place).copy_from(&span);
        }
        Ok(())
    }
}
