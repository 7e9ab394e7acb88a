//! The shared suite on every source, in host memory.

use kvikio::{Engine, Key, Options, Platform, Value};
use kvikio_testkit::conformance::{Host, Memory, OnDisk, check};

fn engine(threads: usize) -> Engine {
    Engine::new(Platform::of(None, None, "/".as_ref()), threads)
}

#[test]
fn memory_is_a_file() {
    check(&Memory::new(engine(4)), &Host, &Options::default());
}

#[test]
fn a_local_file_is_a_file() {
    // The build folder is on a disk on most machines, so that direct I/O is met.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for threads in [1, 4] {
        check(
            &OnDisk { engine: engine(threads), dir: dir.path().into(), cases: 48 },
            &Host,
            &Options::default(),
        );
    }
}

#[test]
fn a_file_on_tmpfs_is_a_file() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        eprintln!("skipped: there is no /dev/shm");
        return;
    };
    let posix = Options::default().with(Key::CompatMode, Value::LocalIo(kvikio::LocalIo::Posix)).unwrap();
    check(&OnDisk { engine: engine(3), dir: dir.path().into(), cases: 48 }, &Host, &posix);
}
