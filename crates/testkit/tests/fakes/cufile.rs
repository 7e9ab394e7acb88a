//! cuFile: registration, transfers at any alignment, and their errors.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Duration;

use kvikio_sys::cufile::{CuFileStatus, Handle, Storage, Table};
use tempfile::TempDir;

use crate::{Bench, pattern};

const LEN: usize = 3 * 4096 + 123;

/// A file with a pattern in it, registered, and device memory of the same length.
struct Opened {
    bench: Bench,
    cufile: Table,
    file: File,
    handle: Handle,
    device: u64,
    path: PathBuf,
    _dir: TempDir,
}

impl Opened {
    fn new() -> Self {
        let bench = Bench::new();
        let cufile = bench.fakes.cufile();
        let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let path = dir.path().join("data");
        File::create(&path).unwrap().write_all(&pattern(LEN)).unwrap();
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        // Some file systems refuse direct I/O; the claims hold without it, too.
        let direct = options.clone().custom_flags(libc::O_DIRECT).open(&path);
        let file = direct.or_else(|_| options.open(&path)).unwrap();
        // SAFETY: the file stays open as long as the handle is used.
        let handle = unsafe { cufile.register(file.as_raw_fd()) }.unwrap();
        let device = bench.cuda.alloc(LEN).unwrap();
        Self { bench, cufile, file, handle, device, path, _dir: dir }
    }

    fn read(&self, len: usize, offset: i64, device_offset: i64) -> Result<usize, i32> {
        // SAFETY: ranges outside the allocation are refused.
        let outcome = unsafe { self.cufile.read(self.handle, self.device, len, offset, device_offset) };
        outcome.map_err(|status| status.op)
    }

    fn write(&self, len: usize, offset: i64, device_offset: i64) -> Result<usize, i32> {
        // SAFETY: ranges outside the allocation are refused.
        let outcome = unsafe { self.cufile.write(self.handle, self.device, len, offset, device_offset) };
        outcome.map_err(|status| status.op)
    }
}

#[test]
fn reads_reach_the_bytes_asked_for_and_no_others() {
    let opened = Opened::new();
    for (len, offset, device_offset) in
        [(LEN, 0, 0), (4096, 4096, 0), (1001, 7, 13), (5000, 4095, 1), (0, 5, 5)]
    {
        opened.bench.control.poke(opened.device, &[0xEE; LEN]);
        assert_eq!(opened.read(len, offset, device_offset), Ok(len));
        let (from, to) = (usize::try_from(offset).unwrap(), usize::try_from(device_offset).unwrap());
        let mut expected = vec![0xEE; LEN];
        expected[to..to + len].copy_from_slice(&pattern(LEN)[from..from + len]);
        assert!(opened.bench.control.peek(opened.device, LEN) == expected, "{len} at {offset}");
    }
    opened.bench.assert_clean();
}

#[test]
fn writes_leave_their_neighbours_alone() {
    let opened = Opened::new();
    opened.bench.control.poke(opened.device, &[0xAA; LEN]);
    let mut expected = pattern(LEN);
    for (len, offset) in [(4096, 4096), (1001, 7), (5000, 4095), (100, LEN - 50)] {
        assert_eq!(opened.write(len, i64::try_from(offset).unwrap(), 3), Ok(len));
        expected.resize(expected.len().max(offset + len), 0);
        expected[offset..offset + len].fill(0xAA);
        assert!(std::fs::read(&opened.path).unwrap() == expected, "{len} at {offset}");
    }
    opened.bench.assert_clean();
}

#[test]
fn the_end_of_the_file_shortens_a_read() {
    let opened = Opened::new();
    let end = i64::try_from(LEN).unwrap();
    assert_eq!(opened.read(100, end - 30, 0), Ok(30));
    assert_eq!(opened.read(100, end, 0), Ok(0));
    assert_eq!(opened.read(100, end + 5000, 0), Ok(0));
}

#[test]
fn memory_is_checked() {
    let opened = Opened::new();
    assert_eq!(opened.read(LEN + 1, 0, 0), Err(5014));
    assert_eq!(opened.read(4096, 0, i64::try_from(LEN).unwrap() - 4095), Err(5014));
    let host = opened.bench.pinned(&[0; 16]);
    // SAFETY: host memory is refused.
    let outcome = unsafe { opened.cufile.read(opened.handle, host as u64, 16, 0, 0) };
    assert_eq!(outcome, Err(CuFileStatus { op: 5013, driver: 0 }));
    opened.bench.cuda.push_context(opened.bench.cuda.primary_context(1).unwrap()).unwrap();
    assert_eq!(opened.read(16, 0, 0), Err(5015));
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(opened.read(16, 0, 0), Err(CuFileStatus::CUDA_DRIVER_ERROR)));
    });
}

#[test]
fn registrations_are_checked() {
    let opened = Opened::new();
    let register = |fd| {
        // SAFETY: each is refused.
        unsafe { opened.cufile.register(fd) }.map_err(|status| (status.op, status.driver))
    };
    assert_eq!(register(opened.file.as_raw_fd()), Err((5028, 0)));
    assert_eq!(register(-1), Err((5022, 0)));
    assert_eq!(register(9999), Err((5022, 0)));
    let folder = File::open(opened.path.parent().unwrap()).unwrap();
    assert_eq!(register(folder.as_raw_fd()), Err((5018, 0)));
    opened.bench.control.set("register_status", 5027);
    assert_eq!(register(folder.as_raw_fd()), Err((5027, 0)));
    assert_eq!(opened.bench.control.counter("registered_handles"), 1);
    // SAFETY: no transfer is running.
    unsafe { opened.cufile.deregister(opened.handle) };
    assert_eq!(opened.read(16, 0, 0), Err(5027));
    assert_eq!(opened.bench.control.counter("registered_handles"), 0);
    opened.bench.assert_clean();
}

#[test]
fn buffers_are_registered_once_and_outlive_it() {
    let opened = Opened::new();
    let register = |address| {
        // SAFETY: the allocation lives on, or the call is refused.
        unsafe { opened.cufile.register_buffer(address, LEN, 0) }.map_err(|status| status.op)
    };
    assert_eq!([register(opened.device), register(opened.device)], [Ok(()), Err(5023)]);
    assert_eq!(register(opened.device + 1), Err(5014));
    opened.cufile.deregister_buffer(opened.device).unwrap();
    assert_eq!(opened.cufile.deregister_buffer(opened.device), Err(CuFileStatus { op: 5024, driver: 0 }));
    register(opened.device).unwrap();
    opened.bench.assert_clean();
    // SAFETY: not used again; the live registration is what is tested.
    unsafe { opened.bench.cuda.free(opened.device) }.unwrap();
    assert!(opened.bench.control.violation().unwrap().contains("freed while registered"));
}

#[test]
fn deregistering_under_a_transfer_is_a_violation() {
    let opened = Opened::new();
    opened.bench.control.set("hold_transfers", 1);
    let context = opened.bench.cuda.current_context().unwrap().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            opened.bench.cuda.push_context(context).unwrap();
            assert_eq!(opened.read(16, 0, 0), Ok(16));
        });
        while opened.bench.control.calls("cuFileRead") == 0 {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(50));
        // SAFETY: not safe by contract; the double copes, and notices.
        unsafe { opened.cufile.deregister(opened.handle) };
        opened.bench.control.set("hold_transfers", 0);
    });
    assert!(opened.bench.control.violation().unwrap().contains("while a transfer was running"));
}

#[test]
fn closing_the_file_first_is_a_violation() {
    let Opened { bench, cufile, file, handle, .. } = Opened::new();
    drop(file);
    // SAFETY: no transfer is running.
    unsafe { cufile.deregister(handle) };
    assert!(bench.control.violation().unwrap().contains("closed before it was deregistered"));
}

#[test]
fn planned_failures_are_errnos_or_statuses() {
    let opened = Opened::new();
    opened.bench.control.fail("cuFileRead", 1, libc::EIO);
    opened.bench.control.fail("cuFileRead", 2, 5030);
    assert_eq!([opened.read(16, 0, 0), opened.read(16, 0, 0)], [Err(libc::EIO), Err(5030)]);
    opened.bench.control.set("max_transfer", 10);
    assert_eq!(opened.read(16, 0, 0), Ok(10));
}

#[test]
fn properties_and_use_count_follow_the_settings() {
    let bench = Bench::new();
    let cufile = bench.fakes.cufile();
    bench.control.set("nvfs_major", 0);
    bench.control.set("nvfs_minor", 0);
    bench.control.set("status_flags", 1 << 11);
    bench.control.set("control_flags", 0);
    let properties = cufile.properties().unwrap();
    assert!(!properties.has_nvidia_fs() && !properties.allows_compat_mode());
    assert!(properties.supports(Storage::NvmeP2p) && !properties.supports(Storage::Nvme));
    assert_eq!((properties.max_direct_io_size_kib, properties.max_batch_io_size), (16384, 128));
    cufile.open_driver().unwrap();
    assert_eq!(bench.control.counter("cufile_use_count"), 1);
    cufile.close_driver().unwrap();
    assert_eq!(cufile.close_driver().map_err(|status| status.op), Err(5001));
    bench.control.set("driver_open_status", 5004);
    assert_eq!(cufile.open_driver().map_err(|status| status.op), Err(5004));
}
