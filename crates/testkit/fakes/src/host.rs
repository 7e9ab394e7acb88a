//! Host memory that belongs to the program under test, touched on its behalf.
#![allow(unsafe_code)]

/// A copy of the `len` bytes at `address`.
///
/// Only for the source of a call that is running: its caller guarantees that the bytes are readable.
pub(crate) fn bytes_at(address: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    // SAFETY: the running call's caller guarantees `len` readable bytes at `address`; the vector is new and as long.
    unsafe { std::ptr::copy_nonoverlapping(address as *const u8, bytes.as_mut_ptr(), len) };
    bytes
}

/// Copies `bytes` to `address`.
///
/// Only for the destination of a call that is running or that the program waits for.
pub(crate) fn put_bytes(address: usize, bytes: &[u8]) {
    // SAFETY: the caller of the exported function named `address` as a destination of this many bytes.
    unsafe { std::ptr::copy(bytes.as_ptr(), address as *mut u8, bytes.len()) };
}

/// A number that differs, for all practical purposes, where the bytes differ.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    const PRIME: u64 = 0x0000_0100_0000_01B3;
    let (words, rest) = bytes.as_chunks::<8>();
    let sum = words.iter().fold(0xCBF2_9CE4_8422_2325, |sum: u64, word| {
        (sum ^ u64::from_le_bytes(*word)).wrapping_mul(PRIME).rotate_left(29)
    });
    rest.iter().fold(sum, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(PRIME))
}
