//! The shared suite on every source and in every kind of memory.
#![allow(clippy::unwrap_used)]

use kvikio::{Engine, Key, Options, Platform, Value};
use kvikio_testkit::conformance::{Host, Kind, Memory, OnDevice, OnDisk, check};
use kvikio_testkit::fakes::Fakes;

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

/// An engine over doubles of the vendor libraries.
fn faked(fakes: &Fakes, root: &std::path::Path, threads: usize) -> Engine {
    Engine::new(Platform::of(Some(fakes.cuda()), Some(fakes.cufile()), root), threads)
}

fn keeps_the_rules(fakes: &Fakes) {
    let control = fakes.control();
    assert_eq!(control.counter("violations"), 0, "{:?}", control.violation());
    assert_eq!(control.counter("pageable_copies"), 0, "every asynchronous copy is of page-locked memory");
    assert_eq!(control.counter("contexts_pushed"), 0, "every context pushed was popped");
}

#[test]
fn memory_of_a_device_is_staged() {
    let fakes = Fakes::install();
    for (threads, delay) in [(1, 0), (3, 0), (3, 100)] {
        fakes.control().set("copy_delay_us", delay);
        let engine = faked(&fakes, "/".as_ref(), threads);
        let kind = OnDevice { engine: engine.clone(), device: 1 };
        check(&Memory::new(engine.clone()), &kind, &Options::default());
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        check(
            &OnDisk { engine: engine.clone(), dir: dir.path().into(), cases: 24 },
            &kind,
            &Options::default(),
        );
        keeps_the_rules(&fakes);
    }
    let control = fakes.control();
    assert_eq!(control.calls("cuFileRead") + control.calls("cuFileDriverOpen"), 0, "cuFile was never woken");
    for counter in ["live_allocations", "live_host_allocations", "live_streams", "live_events"] {
        assert_eq!(control.counter(counter), 0, "{counter} after all engines and buffers are gone");
    }
}

#[test]
fn cufile_moves_memory_of_a_device() {
    let fakes = Fakes::install();
    let off = Options::default().with(Key::CompatMode, Value::LocalIo(kvikio::LocalIo::CuFile)).unwrap();
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let engine = faked(&fakes, "/".as_ref(), 3);
    let kind = OnDevice { engine: engine.clone(), device: 0 };
    check(&OnDisk { engine, dir: dir.path().into(), cases: 32 }, &kind, &off);
    keeps_the_rules(&fakes);
    assert!(fakes.control().calls("cuFileRead") > 10 && fakes.control().calls("cuFileWrite") > 10);
    assert_eq!(fakes.control().counter("registered_handles"), 0);
}

#[test]
fn page_locked_memory_is_host_memory() {
    let fakes = Fakes::install();
    let engine = faked(&fakes, "/".as_ref(), 2);
    check(&Memory::new(engine.clone()), &Pinned(engine), &Options::default());
    keeps_the_rules(&fakes);
    assert_eq!(fakes.control().calls("cuMemcpyHtoDAsync_v2"), 0, "page-locked memory is host memory");
}

struct Pinned(Engine);

impl Kind for Pinned {
    type Buf = kvikio::PinnedBuf;
    fn buf(&self, bytes: &[u8]) -> kvikio::PinnedBuf {
        let mut buf = self.0.pinned(0, bytes.len()).unwrap();
        buf.copy_from_slice(bytes);
        buf
    }
    fn bytes(&self, buf: &kvikio::PinnedBuf) -> Vec<u8> {
        buf.to_vec()
    }
}
