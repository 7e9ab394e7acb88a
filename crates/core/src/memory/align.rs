//! Page arithmetic as pure functions with checked overflow.

/// The system's page size in bytes: what direct I/O is aligned to unless the file system says more.
#[must_use]
pub fn page_size() -> usize {
    rustix::param::page_size()
}

/// `value` rounded down to a multiple of `unit`, a power of two.
#[must_use]
pub fn down(value: u64, unit: u64) -> u64 {
    value & !(unit - 1)
}

/// `value` rounded up to a multiple of `unit`, a power of two; `None` where that does not fit.
#[must_use]
pub fn up(value: u64, unit: u64) -> Option<u64> {
    value.checked_add(unit - 1).map(|sum| down(sum, unit))
}

/// A range cut where alignment changes: an unaligned `head`, an aligned `body`, an unaligned `tail` (lengths).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Bytes before the first multiple of the unit.
    pub head: u64,
    /// Bytes between multiples of the unit.
    pub body: u64,
    /// Bytes after the last multiple of the unit.
    pub tail: u64,
}

/// Cuts `offset .. offset + len` at multiples of `unit`, a power of two. The parts add up to `len`.
#[must_use]
pub fn cut(offset: u64, len: u64, unit: u64) -> Cut {
    let to_edge = (unit - (offset & (unit - 1))) & (unit - 1);
    let head = to_edge.min(len);
    let body = down(len - head, unit);
    Cut { head, body, tail: len - head - body }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rounding_near_the_top_does_not_wrap() {
        assert_eq!(up(u64::MAX, 4096), None);
        assert_eq!(down(u64::MAX, 4096), u64::MAX - 4095);
    }

    proptest! {
        #[test]
        fn cut_parts_tile_the_range(offset in 0..1_u64 << 40, len in 0..1_u64 << 30, shift in 9..16_u32) {
            let unit = 1 << shift;
            let parts = cut(offset, len, unit);
            prop_assert_eq!(parts.head + parts.body + parts.tail, len);
            prop_assert!(parts.head < unit && parts.tail < unit);
            prop_assert!(parts.body.is_multiple_of(unit));
            if parts.body > 0 || parts.tail > 0 {
                prop_assert!((offset + parts.head).is_multiple_of(unit));
            }
        }

        #[test]
        fn up_is_the_least_multiple_that_is_not_below(value in 0..1_u64 << 50, shift in 0..20_u32) {
            let unit = 1 << shift;
            let rounded = up(value, unit).unwrap();
            prop_assert!(rounded >= value && rounded - value < unit && rounded.is_multiple_of(unit));
        }
    }
}
