//! What objects consist of.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use crate::conformance::pattern;

/// After so many bytes the pattern of [`pattern`] begins anew.
const PERIOD: u64 = 251 * 256;

/// The pattern for as long as the largest piece that is sent at once needs.
static PATTERN: LazyLock<Vec<u8>> = LazyLock::new(|| pattern(PERIOD as usize + (1 << 20), 0));

/// The bytes of an object.
#[derive(Clone)]
pub enum Content {
    /// These.
    Bytes(Arc<[u8]>),
    /// So many bytes of [`pattern`] with seed 0, which take no memory.
    Pattern(u64),
    /// Those of a file, sent without a copy where there is no TLS.
    File(PathBuf, u64),
}

impl Content {
    /// Their number.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Pattern(len) | Self::File(_, len) => *len,
        }
    }

    /// True where there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Up to `len` bytes from `offset` on that lie side by side in memory; at least one where there is one. Not for
    /// files.
    pub(super) fn piece(&self, offset: u64, len: u64) -> &[u8] {
        let len = len.min(self.len().saturating_sub(offset)).min(1 << 20) as usize;
        match self {
            Self::Bytes(bytes) => &bytes[offset as usize..offset as usize + len],
            Self::Pattern(_) => &PATTERN[(offset % PERIOD) as usize..][..len],
            Self::File(..) => &[],
        }
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endless_pattern_is_the_suites() {
        let expected = pattern(3 << 20, 0);
        let content = Content::Pattern(3 << 20);
        for offset in [0, 1, 64_255, 64_256, 64_257, 1 << 20, (3 << 20) - 5] {
            let piece = content.piece(offset, u64::MAX);
            assert!(!piece.is_empty());
            assert!(*piece == expected[offset as usize..][..piece.len()], "{offset}");
        }
    }
}
