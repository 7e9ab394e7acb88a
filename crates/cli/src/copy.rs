//! `kvikio copy`: a file copied through the engine, reads overlapping writes.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Instant;

use kvikio::{File, Options};
use tempfile::NamedTempFile;

use crate::Context;
use crate::args::Copy;
use crate::destination::{destination, refuse_address, sync_folder};
use crate::output::{Failure, failed, print};
use crate::progress::Progress;
use crate::units::{bytes, rate};

/// Bytes that are read or written by one request; two are in flight.
const PIECE: u64 = 64 << 20;

/// Copies.
///
/// # Errors
/// What stopped it; nothing has then appeared at the destination.
pub fn run(args: &Copy, context: &Context) -> Result<i32, Failure> {
    refuse_address(&args.to)?;
    let options = Options::from_env()?;
    let engine = context.engine(&options);
    let source = File::options().read(true).options(options.clone()).engine(&engine).open(&args.from)?;
    let facts = std::fs::metadata(&args.from).map_err(|error| failed("query", &args.from, &error))?;
    if !facts.is_file() {
        return Err(Failure(format!("copy {}: not a regular file", args.from.display())));
    }
    let (to, folder) = destination(&args.from, &args.to, (facts.dev(), facts.ino()))?;

    let temporary = tempfile::Builder::new()
        .prefix(".kvikio-copy-")
        .tempfile_in(&folder)
        .map_err(|error| failed("create a temporary file in", &folder, &error))?;
    let target = File::options().write(true).options(options).engine(&engine).open(temporary.path())?;
    let start = Instant::now();
    let len = source.len()?;
    move_bytes(&source, &target, len).map_err(|error| rename_subject(&error, temporary.path(), &to))?;
    check_length(&source, len, &args.from)?;
    if args.sync {
        target.sync()?;
    }
    drop(target);
    finish(temporary, &to, facts.mode())?;
    if args.sync {
        sync_folder(&folder)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    print(&format!(
        "copied {} to {} in {seconds:.2} s ({})\n",
        bytes(len),
        to.display(),
        rate(len, seconds)
    ))?;
    Ok(0)
}

/// Moves `len` bytes: while one piece is written the next is read.
fn move_bytes(source: &File, target: &File, len: u64) -> Result<(), kvikio::Error> {
    let progress = Progress::new(len);
    // Not more than a piece, so it fits.
    let piece_at = |offset: u64| (len - offset).min(PIECE) as usize;
    let mut spare = vec![0; piece_at(0)];
    let mut reading = (len > 0).then(|| source.read_exact_at(std::mem::take(&mut spare), 0));
    let mut writing: Option<kvikio::Transfer<Vec<u8>>> = None;
    let mut offset = 0;
    while let Some(read) = reading.take() {
        let (moved, full) = read.wait();
        let next = offset + moved? as u64;
        if let Some(write) = writing.take() {
            let (moved, free) = write.wait();
            moved?;
            spare = free;
            progress.set(offset);
        }
        if next < len {
            spare.resize(piece_at(next), 0);
            reading = Some(source.read_exact_at(std::mem::take(&mut spare), next));
        }
        writing = Some(target.write_at(full, offset));
        offset = next;
    }
    writing.map_or(Ok(()), |write| write.wait().0.map(|_all| ()))
}

/// Errors of writing name the copy that was asked for, not the temporary name.
fn rename_subject(error: &kvikio::Error, temporary: &Path, to: &Path) -> Failure {
    Failure(error.to_string().replace(&*temporary.to_string_lossy(), &to.to_string_lossy()))
}

/// A file that is longer than it said when the copy began (or never said, as in `/proc`) has not been copied whole.
fn check_length(source: &File, len: u64, path: &Path) -> Result<(), Failure> {
    let beyond = source.read_into(&mut [0], len)?;
    if beyond == 0 && source.len()? == len {
        return Ok(());
    }
    Err(Failure(format!("copy {}: the file changed its length while it was copied", path.display())))
}

/// Gives the whole copy its permissions and its name.
fn finish(temporary: NamedTempFile, to: &Path, mode: u32) -> Result<(), Failure> {
    // Not the set-user-ID bits: the copy may have another owner.
    std::fs::set_permissions(temporary.path(), Permissions::from_mode(mode & 0o777))
        .map_err(|error| failed("set the permissions of", to, &error))?;
    temporary.persist(to).map_err(|error| failed("rename the copy to", to, &error.error))?;
    Ok(())
}
