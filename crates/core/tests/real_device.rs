//! The shared suite against the real driver and the real cuFile, on a machine that has them; elsewhere it says why not.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use kvikio::{Engine, File, Key, LocalIo, Options, Platform, Route, Value};
use kvikio_testkit::conformance::{Memory, OnDevice, OnDisk, check, pattern};

/// An engine on the machine's own driver, or why there is none.
fn real(threads: usize) -> Option<Engine> {
    let engine = Engine::new(Platform::detect([]), threads);
    match engine.device_buf(0, 1) {
        Ok(_) => Some(engine),
        Err(why) => {
            eprintln!("skipped: {why}");
            None
        }
    }
}

/// A folder on a disk: where the binary lies, unless the test runner says otherwise.
fn disk() -> tempfile::TempDir {
    let beside = std::env::current_exe().unwrap().parent().map_or_else(|| PathBuf::from("."), PathBuf::from);
    tempfile::tempdir_in(beside).unwrap()
}

fn with(route: LocalIo) -> Options {
    Options::default().with(Key::CompatMode, Value::LocalIo(route)).unwrap()
}

#[test]
fn the_suite_on_a_real_device_staged() {
    let Some(engine) = real(4) else { return };
    let kind = OnDevice { engine: engine.clone(), device: 0 };
    check(&Memory::new(engine.clone()), &kind, &with(LocalIo::Posix));
    let dir = disk();
    check(
        &OnDisk { engine: engine.clone(), dir: dir.path().into(), cases: 48 },
        &kind,
        &with(LocalIo::Posix),
    );
    if let Ok(memory) = tempfile::tempdir_in("/dev/shm") {
        check(&OnDisk { engine, dir: memory.path().into(), cases: 24 }, &kind, &with(LocalIo::Auto));
    }
}

#[test]
fn the_suite_on_a_real_device_by_cufile() {
    let Some(engine) = real(4) else { return };
    let dir = disk();
    let path = dir.path().join("probe");
    std::fs::write(&path, pattern(1 << 20, 1)).unwrap();
    let opened = File::options().read(true).engine(&engine).options(with(LocalIo::CuFile)).open(&path);
    match opened {
        Err(why) => eprintln!("skipped: {why}"),
        Ok(file) => {
            assert_eq!(file.route(), Route::Direct);
            let kind = OnDevice { engine: engine.clone(), device: 0 };
            check(&OnDisk { engine, dir: dir.path().into(), cases: 32 }, &kind, &with(LocalIo::CuFile));
        }
    }
}

#[test]
fn large_transfers_on_a_real_device() {
    let Some(engine) = real(8) else { return };
    let dir = disk();
    let path = dir.path().join("large");
    let len = (256 << 20) + 12_345;
    let content = pattern(len, 9);
    std::fs::write(&path, &content).unwrap();
    let file = File::options().read(true).write(true).engine(&engine).open(&path).unwrap();
    eprintln!("route: {:?}, {}", file.route(), file.route_reason());
    for offset in [0, 1, 4095, 1 << 20] {
        let (result, buf) =
            file.read_exact_at(engine.device_buf(0, len - offset).unwrap(), offset as u64).wait();
        assert_eq!(result.unwrap(), len - offset);
        assert!(buf.to_vec().unwrap() == content[offset..], "wrong bytes from {offset}");
        let (result, buf) = file.write_at(buf, 7).wait();
        assert_eq!(result.unwrap(), len - offset);
        let on_disk = std::fs::read(&path).unwrap();
        assert!(on_disk[7..7 + len - offset] == content[offset..], "wrong bytes written from {offset}");
        std::fs::write(&path, &content).unwrap();
        drop(buf);
    }
}
