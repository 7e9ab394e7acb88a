//! Takes a function out of a built library.

use std::path::Path;
use std::{fs, io};

/// Renames `symbol` in the library's string tables, so that a look-up, which goes by the hash of the wanted name and
/// then compares names, finds none.
pub(crate) fn remove(library: &Path, symbol: &str) -> io::Result<()> {
    let mut bytes = fs::read(library)?;
    // Names in string tables are terminated on both sides.
    let wanted: Vec<u8> = [b"\0", symbol.as_bytes(), b"\0"].concat();
    let places: Vec<usize> = bytes
        .windows(wanted.len())
        .enumerate()
        .filter(|(_, window)| *window == wanted)
        .map(|(at, _)| at)
        .collect();
    if symbol.is_empty() || places.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("{symbol:?} is not in {}", library.display()),
        ));
    }
    for at in places {
        if let Some(first) = bytes.get_mut(at + 1) {
            *first = b'?';
        }
    }
    // Into the same file, which has a second name.
    fs::write(library, bytes)
}
