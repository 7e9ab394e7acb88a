//! Bad input gets a clear error that names path and bytes, and nothing is lost.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use kvikio::{Engine, Error, ErrorKind, File, Key, Options, Platform, Value};

fn engine() -> Engine {
    Engine::new(Platform::of(None, None, "/".as_ref()), 2)
}

fn open(path: &Path) -> Result<File, Error> {
    File::options().read(true).engine(&engine()).open(path)
}

#[test]
fn what_cannot_be_opened_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let error = open(&missing).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(error.to_string(), format!("open {}: No such file or directory", missing.display()));

    let error = open(dir.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IsADirectory);

    let below_a_file = dir.path().join("file/below");
    std::fs::write(dir.path().join("file"), b"x").unwrap();
    assert_eq!(open(&below_a_file).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(open(Path::new("nul\0byte")).is_err());
}

#[test]
fn a_fifo_or_socket_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    // A blocking open would hang here until the test runner gives up.
    assert_eq!(open(&fifo).unwrap_err().kind(), ErrorKind::NotSeekable);
    let to_write = File::options().write(true).engine(&engine()).open(&fifo).unwrap_err();
    assert_eq!(to_write.kind(), ErrorKind::NotSeekable, "nobody reads it, so it cannot even be opened");
    let socket = dir.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert_eq!(open(&socket).unwrap_err().kind(), ErrorKind::NotSeekable);
}

#[test]
fn no_permission_is_told_from_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("secret");
    std::fs::write(&path, b"x").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::File::open(&path).is_err() {
        assert_eq!(open(&path).unwrap_err().kind(), ErrorKind::PermissionDenied);
        return;
    }
    // Root may open any file, but not write to one that is being run.
    let program = std::env::current_exe().unwrap();
    let error = File::options().write(true).engine(&engine()).open(&program).unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Io, Some(26)), "{error}");
}

#[test]
fn a_file_open_for_one_thing_refuses_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    std::fs::write(&path, b"precious").unwrap();
    let error = open(&path).unwrap().write_all_from(b"lost", 2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongMode);
    assert_eq!(error.range(), Some(2..6));
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    let writer = File::options().write(true).engine(&engine()).open(&path).unwrap();
    let mut buf = *b"same";
    assert_eq!(writer.read_into(&mut buf, 0).unwrap_err().kind(), ErrorKind::WrongMode);
    assert_eq!(&buf, b"same");
    let (result, buf) = writer.read_at(vec![1; 3], 0).wait();
    assert_eq!(result.unwrap_err().kind(), ErrorKind::WrongMode);
    assert_eq!(buf, [1; 3], "the buffer comes back");
}

#[test]
fn a_full_device_is_an_error_with_the_bytes_done() {
    let full = File::options().write(true).engine(&engine()).open("/dev/full").unwrap();
    let error = full.write_all_from(&[1; 10_000], 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert_eq!(error.done(), Some(0));
    assert_eq!(error.subject(), Some("/dev/full"));
    let (result, _) = full.write_at(vec![1; 20 << 20], 0).wait();
    assert_eq!(result.unwrap_err().kind(), ErrorKind::StorageFull);
}

#[test]
fn a_write_beyond_what_the_file_system_holds_names_its_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let options = Options::default()
        .with(Key::TaskSize, Value::Int(8192))
        .and_then(|options| options.with(Key::AutoDirectIoWrite, Value::Bool(false)))
        .unwrap();
    let file =
        File::options().write(true).create(true).options(options).engine(&engine()).open(&path).unwrap();
    let far = (1_u64 << 62) - 10_000;
    let error = file.write_at(vec![1; 100_000], far).wait().0.unwrap_err();
    assert_eq!(error.range(), Some(far..far + 100_000));
    assert_eq!(error.done(), Some(0), "{error}");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
}

#[test]
fn a_file_truncated_meanwhile_is_never_a_full_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    std::fs::write(&path, vec![9; 1 << 20]).unwrap();
    let file = open(&path).unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(300_000).unwrap();
    let mut buf = vec![0; 1 << 20];
    let error = file.read_exact_into(&mut buf, 0).unwrap_err();
    assert_eq!((error.kind(), error.done()), (ErrorKind::UnexpectedEof, Some(300_000)));
    assert_eq!(file.read_into(&mut buf, 0).unwrap(), 300_000);
    assert_eq!(file.len().unwrap(), 300_000);
}

#[test]
fn files_of_proc_are_read_to_their_end() {
    let file = open(Path::new("/proc/self/status")).unwrap();
    let mut buf = vec![0; 100_000];
    let len = file.read_into(&mut buf, 0).unwrap();
    assert!(len > 100 && buf.starts_with(b"Name:"), "{len}");
}

#[test]
fn names_of_any_bytes_work() {
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().unwrap();
    for name in [&b"\xff\xfe not utf-8"[..], "日本語 ünï".as_bytes(), b" lead and trail ", b"new\nline"]
    {
        let path = dir.path().join(std::ffi::OsStr::from_bytes(name));
        File::options()
            .write(true)
            .create(true)
            .engine(&engine())
            .open(&path)
            .unwrap()
            .write_all_from(b"x", 0)
            .unwrap();
        let mut buf = [0; 1];
        open(&path).unwrap().read_exact_into(&mut buf, 0).unwrap();
        assert_eq!(&buf, b"x");
    }
}

#[test]
fn appends_land_one_after_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    std::fs::write(&path, b"head ").unwrap();
    let file = File::options().append(true).create(true).read(true).engine(&engine()).open(&path).unwrap();
    let first = file.append(b"first ".to_vec());
    let second = file.append(b"second".to_vec());
    second.wait().0.unwrap();
    first.wait().0.unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"head first second");
    assert_eq!(file.write_all_from(b"x", 0).unwrap_err().kind(), ErrorKind::WrongMode);
    let (result, buf) = file.write_at(b"x".to_vec(), 3).wait();
    assert_eq!((result.unwrap_err().kind(), buf), (ErrorKind::WrongMode, b"x".to_vec()));
    let not_appending = File::options().write(true).engine(&engine()).open(&path).unwrap();
    assert_eq!(not_appending.append(b"x".to_vec()).wait().0.unwrap_err().kind(), ErrorKind::WrongMode);
}

#[test]
fn sparse_files_beyond_two_four_and_eight_gigabytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sparse");
    let file = File::options().read(true).write(true).create(true).engine(&engine()).open(&path).unwrap();
    for shift in [31, 32, 33] {
        let edge = 1_u64 << shift;
        file.write_all_from(b"across", edge - 3).unwrap();
        let mut buf = [1; 12];
        file.read_exact_into(&mut buf[..9], edge - 6).unwrap();
        assert_eq!(&buf[..9], b"\0\0\0across");
    }
    assert_eq!(file.len().unwrap(), (1 << 33) + 3);
}

#[test]
fn an_append_comes_after_what_others_have_appended_and_a_refused_one_takes_no_room() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let open = || File::options().append(true).create(true).open(&path).unwrap();
    let (one, other) = (open(), open());
    one.append(b"AAAA".to_vec()).wait().0.unwrap();
    other.append(b"BB".to_vec()).wait().0.unwrap();
    let refused = one.append(Nowhere).wait().0.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    one.append(b"CC".to_vec()).wait().0.unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"AAAABBCC");
}

/// Device memory on a machine without a driver.
struct Nowhere;

#[allow(unsafe_code)]
// SAFETY: nothing is ever read from it: the request is refused.
unsafe impl kvikio::IoBuf for Nowhere {
    fn address(&self) -> usize {
        64
    }
    fn byte_len(&self) -> usize {
        100
    }
    fn place(&self) -> kvikio::Place {
        kvikio::Place::Ask { after: kvikio::sys::cuda::Stream(0) }
    }
}
