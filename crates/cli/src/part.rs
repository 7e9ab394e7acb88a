//! A copy that is not whole yet: the bytes that have come, and a record of whose they are, both beside the destination,
//! so that the next run goes on where this one was interrupted.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};

use crate::output::{Failure, failed};

/// What the bytes are a part of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Without secrets, and without the query: a link that was signed anew leads to the same object.
    pub address: String,
    pub size: u64,
    /// `None` where the server does not tell: then nothing can be continued.
    pub version: Option<String>,
}

/// What was found of an earlier run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// So many bytes that are right.
    Bytes(u64),
    /// Bytes of another object, or of another version of this one.
    Other,
}

/// The two files. No other process writes them meanwhile.
#[derive(Debug)]
pub struct Part {
    path: PathBuf,
    record: PathBuf,
    object: Object,
    /// Holds the lock.
    file: File,
    done: u64,
}

impl Part {
    /// The part for `to`; made where there is none, emptied where it is of something else.
    ///
    /// # Errors
    /// What the system said, or that another command is at it.
    pub fn open(to: &Path, object: Object) -> Result<(Self, Found), Failure> {
        let beside = |suffix: &str| {
            let mut name = to.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        };
        let (path, record) = (beside(".kvikio-part"), beside(".kvikio-record"));
        let opening = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let file = opening.map_err(|error| failed("create", &path, &error))?;
        lock(&file, &path)?;
        let len = file.metadata().map_err(|error| failed("query", &path, &error))?.len();
        let found = match read(&record) {
            Some((known, done))
                if known == object && object.version.is_some() && (1..=len).contains(&done) =>
            {
                Found::Bytes(done)
            }
            Some(_) => Found::Other,
            None if len > 0 => Found::Other,
            None => Found::Nothing,
        };
        let done = if let Found::Bytes(done) = found { done } else { 0 };
        file.set_len(done).map_err(|error| failed("truncate", &path, &error))?;
        Ok((Self { path, record, object, file, done }, found))
    }

    /// Where the bytes are.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many from the start are right.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// The first `done` bytes have been written. On the disk once [`Part::remember`] has been called.
    pub fn advance(&mut self, done: u64) {
        self.done = done;
    }

    /// Writes the record, after the bytes that it speaks of are on the disk.
    ///
    /// # Errors
    /// What the system said.
    pub fn remember(&self) -> Result<(), Failure> {
        if self.object.version.is_none() {
            return Ok(());
        }
        self.file.sync_data().map_err(|error| failed("sync", &self.path, &error))?;
        let Object { address, size, version } = &self.object;
        let text =
            json!({"kvikio": 1, "address": address, "size": size, "version": version, "done": self.done});
        let fresh = self.record.with_extension("kvikio-record-new");
        let written = fs::write(&fresh, text.to_string()).and_then(|()| fs::rename(&fresh, &self.record));
        written.map_err(|error| failed("write", &self.record, &error))
    }

    /// Gives the whole copy its name.
    ///
    /// # Errors
    /// What the system said.
    pub fn finish(self, to: &Path) -> Result<(), Failure> {
        fs::rename(&self.path, to).map_err(|error| failed("rename the copy to", to, &error))?;
        remove(&self.record);
        Ok(())
    }

    /// Keeps what has come, where the next run can go on from it: then answers the path of it.
    pub fn keep(self) -> Option<PathBuf> {
        if self.done > 0 && self.object.version.is_some() && self.remember().is_ok() {
            return Some(self.path);
        }
        remove(&self.path);
        remove(&self.record);
        None
    }
}

/// What is not there need not be removed, and what stays is overwritten by the next run.
fn remove(path: &Path) {
    let _ = fs::remove_file(path);
}

fn lock(file: &File, path: &Path) -> Result<(), Failure> {
    let busy = || Failure(format!("copy to {}: another command is writing it", path.display()));
    if let Err(error) = flock(file, FlockOperation::NonBlockingLockExclusive) {
        let error = io::Error::from(error);
        return Err(if error.kind() == io::ErrorKind::WouldBlock {
            busy()
        } else {
            failed("lock", path, &error)
        });
    }
    // The command that had it may have given it its name just now.
    let named = fs::metadata(path).map(|facts| (facts.dev(), facts.ino()));
    let held = file.metadata().map(|facts| (facts.dev(), facts.ino()));
    match (named, held) {
        (Ok(named), Ok(held)) if named == held => Ok(()),
        _ => Err(busy()),
    }
}

/// The object of a record and how much of it is done; `None` for what is no record.
fn read(path: &Path) -> Option<(Object, u64)> {
    let value: Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let text = |name: &str| value.get(name)?.as_str().map(str::to_owned);
    let object =
        Object { address: text("address")?, size: value.get("size")?.as_u64()?, version: text("version") };
    Some((object, value.get("done")?.as_u64()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(version: Option<&str>) -> Object {
        Object { address: "http://h/x".to_owned(), size: 10, version: version.map(str::to_owned) }
    }

    /// Leaves `done` bytes of `object` behind, as an interrupted run does.
    fn interrupted(to: &Path, object: Object, done: u64) {
        let (mut part, _) = Part::open(to, object).unwrap();
        part.file.set_len(10).unwrap();
        part.advance(done);
        part.remember().unwrap();
    }

    #[test]
    fn only_the_same_version_is_continued() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("to");
        assert_eq!(Part::open(&to, object(Some("1"))).unwrap().1, Found::Nothing);
        let longer = Object { size: 11, ..object(Some("1")) };
        let elsewhere = Object { address: "http://h/y".to_owned(), ..object(Some("1")) };
        for (other, found) in [
            (object(Some("1")), Found::Bytes(7)),
            (object(Some("2")), Found::Other),
            (object(None), Found::Other),
            (longer, Found::Other),
            (elsewhere, Found::Other),
        ] {
            interrupted(&to, object(Some("1")), 7);
            let (part, what) = Part::open(&to, other).unwrap();
            assert_eq!(what, found);
            let done = if found == Found::Bytes(7) { 7 } else { 0 };
            assert_eq!((part.done(), fs::metadata(part.path()).unwrap().len()), (done, done));
        }
    }

    #[test]
    fn a_record_that_lies_or_is_none_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("to");
        let record = folder.path().join("to.kvikio-record");
        interrupted(&to, object(Some("1")), 7);
        let sound = fs::read_to_string(&record).unwrap();
        for text in ["", "{", "[]", &sound.replace('7', "11"), &sound.replace('7', "-1"), &sound[..20]] {
            interrupted(&to, object(Some("1")), 7);
            fs::write(&record, text).unwrap();
            assert_eq!(Part::open(&to, object(Some("1"))).unwrap().1, Found::Other, "{text}");
        }
    }

    #[test]
    fn two_commands_do_not_write_one_copy() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("to");
        let (first, _) = Part::open(&to, object(Some("1"))).unwrap();
        let error = Part::open(&to, object(Some("1"))).unwrap_err();
        assert!(error.0.contains("another command is writing it"), "{error}");
        drop(first);
        Part::open(&to, object(Some("1"))).unwrap();
    }

    #[test]
    fn what_cannot_be_continued_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("to");
        for (version, done) in [(None, 7), (Some("1"), 0)] {
            let (mut part, _) = Part::open(&to, object(version)).unwrap();
            part.advance(done);
            assert_eq!(part.keep(), None);
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        }
        let (mut part, _) = Part::open(&to, object(Some("1"))).unwrap();
        part.advance(7);
        assert!(part.keep().is_some());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
