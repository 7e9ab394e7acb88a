//! Where a copy goes, and what an address is.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::output::{Failure, failed};

const SCHEMES: [&str; 4] = ["http", "https", "s3", "webhdfs"];

/// True for what is no path of this machine but the address of a remote object.
pub fn is_address(path: &Path) -> bool {
    let text = path.to_string_lossy();
    let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    scheme.is_some_and(|scheme| SCHEMES.contains(&scheme.as_str()))
}

/// Remote objects are only read.
///
/// # Errors
/// For an address.
pub fn refuse_address(path: &Path) -> Result<(), Failure> {
    // Not shown: an address may hold a password.
    let words = "copy to an address: remote objects are only read; the destination is a file of this machine";
    if is_address(path) { Err(Failure(words.to_owned())) } else { Ok(()) }
}

/// Waits until the names in a folder are on the disk.
///
/// # Errors
/// What the system said.
pub fn sync_folder(folder: &Path) -> Result<(), Failure> {
    let synced = std::fs::File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| failed("sync", folder, &error))
}

/// The file that the copy shall become, and the folder it is in. `source` is the device and number of what is copied.
///
/// # Errors
/// Why it cannot.
pub fn destination(from: &Path, to: &Path, source: (u64, u64)) -> Result<(PathBuf, PathBuf), Failure> {
    let refuse = |path: &Path, why: &str| Err(Failure(format!("copy to {}: {why}", path.display())));
    let mut to = to.to_owned();
    if to.is_dir() {
        let Some(name) = from.file_name() else { return refuse(&to, "the source has no file name") };
        to.push(name);
    } else if to.as_os_str().as_bytes().ends_with(b"/") {
        return refuse(&to, "no such directory");
    }
    match std::fs::metadata(&to) {
        Ok(facts) if facts.is_dir() => return refuse(&to, "is a directory"),
        Ok(facts) if (facts.dev(), facts.ino()) == source => return refuse(&to, "is the source itself"),
        // Renaming onto a device or FIFO would put a file in its place.
        Ok(facts) if !facts.is_file() => return refuse(&to, "exists and is not a regular file"),
        // What a symbolic link points to is replaced, not the link.
        Ok(_) => to = to.canonicalize().map_err(|error| failed("query", &to, &error))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if to.is_symlink() {
                return refuse(&to, "is a symbolic link to nothing");
            }
        }
        Err(error) => return Err(failed("query", &to, &error)),
    }
    let folder = match to.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    Ok((to, folder))
}
