//! Functions that our own tables do not use, but other programs do.

use std::ffi::c_void;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;

use kvikio_sys::cuda::{MemoryType, STREAM_DEFAULT, Stream};
use libloading::Library;

use crate::{Bench, pattern};

/// Looks a function up in the double.
macro_rules! function {
    ($bench:expr, $name:literal: fn($($arg:ty),*) -> $ret:ty) => {{
        // SAFETY: the double is loaded already, and stays so.
        let library = std::mem::ManuallyDrop::new(unsafe { Library::new($bench.fakes.cuda_path()) }.unwrap());
        // SAFETY: the type is the function's in its vendor's header.
        *unsafe { library.get::<unsafe extern "C" fn($($arg),*) -> $ret>($name) }.unwrap()
    }};
}

const NON_BLOCKING: u32 = 1;

#[test]
fn pool_memory_is_freed_behind_the_work_of_its_stream() {
    let bench = Bench::new();
    let alloc = function!(bench, "cuMemAllocAsync": fn(*mut u64, usize, usize) -> i32);
    let free = function!(bench, "cuMemFreeAsync": fn(u64, usize) -> i32);
    let stream = bench.cuda.create_stream(STREAM_DEFAULT).unwrap();
    let mut address = 0;
    // SAFETY: a place for the answer, and a stream of ours.
    assert_eq!(unsafe { alloc(&raw mut address, 3, stream.0) }, 0);
    let back = bench.pinned(b"---");
    bench.control.poke(address, b"abc");
    bench.control.set("copy_delay_us", 50_000);
    // SAFETY: both sides hold 3 bytes until the stream has passed.
    unsafe { bench.cuda.copy_to_host_async(back, address, 3, stream) }.unwrap();
    // SAFETY: not used by later work.
    assert_eq!(unsafe { free(address, stream.0) }, 0);
    assert_eq!(bench.cuda.pointer_info(address).unwrap().memory_type, MemoryType::UNREGISTERED);
    bench.cuda.synchronize_stream(stream).unwrap();
    assert_eq!(crate::at(back, 3), b"abc");
    assert_eq!(bench.control.counter("live_allocations"), 0);
}

#[test]
fn a_stream_can_be_made_to_wait_for_an_event() {
    let bench = Bench::new();
    let wait = function!(bench, "cuStreamWaitEvent": fn(usize, usize, u32) -> i32);
    let query = function!(bench, "cuStreamQuery": fn(usize) -> i32);
    let first = bench.cuda.create_stream(NON_BLOCKING).unwrap();
    let second = bench.cuda.create_stream(NON_BLOCKING).unwrap();
    let event = bench.cuda.create_event(2).unwrap();
    let (device, source, back) = (bench.cuda.alloc(3).unwrap(), bench.pinned(b"new"), bench.pinned(b"---"));
    bench.control.set("copy_delay_us", 100_000);
    // SAFETY: both sides hold 3 bytes until the streams have passed.
    unsafe { bench.cuda.copy_to_device_async(device, source, 3, first) }.unwrap();
    bench.control.set("copy_delay_us", 0);
    bench.cuda.record_event(event, first).unwrap();
    // SAFETY: handles of ours.
    assert_eq!(unsafe { wait(second.0, event.0, 0) }, 0);
    // SAFETY: as above.
    unsafe { bench.cuda.copy_to_host_async(back, device, 3, second) }.unwrap();
    // SAFETY: a handle of ours.
    assert_eq!(unsafe { query(second.0) }, 600);
    bench.cuda.synchronize_stream(second).unwrap();
    // SAFETY: a handle of ours.
    assert_eq!(unsafe { query(second.0) }, 0);
    assert_eq!(crate::at(back, 3), b"new");
}

#[test]
fn a_callback_runs_in_order_and_may_not_call_the_driver() {
    type Synchronize = unsafe extern "C" fn(usize) -> i32;
    unsafe extern "C" fn callback(data: *mut c_void) {
        // SAFETY: the test passes the address of its pair, and waits for the callback.
        let (synchronize, status) = unsafe { &mut *data.cast::<(Synchronize, i32)>() };
        // SAFETY: 0 is the default stream; the call is refused.
        *status = unsafe { synchronize(0) };
    }
    let bench = Bench::new();
    let launch = function!(
        bench, "cuLaunchHostFunc": fn(usize, unsafe extern "C" fn(*mut c_void), *mut c_void) -> i32);
    let mut pair: (Synchronize, i32) = (function!(bench, "cuStreamSynchronize": fn(usize) -> i32), -1);
    // SAFETY: the pair lives until the stream has passed.
    assert_eq!(unsafe { launch(0, callback, (&raw mut pair).cast()) }, 0);
    bench.cuda.synchronize_stream(Stream(0)).unwrap();
    assert_eq!(pair.1, 800);
    assert!(bench.control.violation().unwrap().contains("callback"));
}

#[test]
fn a_queued_read_takes_its_numbers_when_the_stream_gets_there() {
    type ReadAsync =
        unsafe extern "C" fn(usize, u64, *mut usize, *mut i64, *mut i64, *mut isize, usize) -> i64;
    let bench = Bench::new();
    let (cufile, mut file) = (bench.fakes.cufile(), tempfile::tempfile().unwrap());
    file.write_all(&pattern(5000)).unwrap();
    // SAFETY: the file outlives the handle's use.
    let handle = unsafe { cufile.register(file.as_raw_fd()) }.unwrap();
    let device = bench.cuda.alloc(5000).unwrap();
    let stream = bench.cuda.create_stream(STREAM_DEFAULT).unwrap();
    // The status comes back in one register, like the 8-byte structure.
    let read: ReadAsync = function!(bench, "cuFileReadAsync": fn(usize, u64, *mut usize, *mut i64, *mut i64, *mut isize, usize) -> i64);
    let (blocker, source) = (bench.cuda.alloc(1).unwrap(), bench.pinned(b"x"));
    bench.control.set("hold_copies", 1);
    // SAFETY: both sides hold a byte until the stream has passed.
    unsafe { bench.cuda.copy_to_device_async(blocker, source, 1, stream) }.unwrap();
    let (mut len, mut offset, mut device_offset, mut done) = (1usize, 0i64, 0i64, 0isize);
    let places = (&raw mut len, &raw mut offset, &raw mut device_offset, &raw mut done);
    // SAFETY: the places live until the stream has passed.
    let status = unsafe { read(handle.0, device, places.0, places.1, places.2, places.3, stream.0) };
    assert_eq!(status, 0);
    // SAFETY: a place of ours, which the stream reads later.
    unsafe { places.0.write_volatile(4000) };
    // SAFETY: as above.
    unsafe { places.1.write_volatile(1500) };
    bench.control.set("hold_copies", 0);
    bench.cuda.synchronize_stream(stream).unwrap();
    // SAFETY: as above; the stream has written it.
    assert_eq!(unsafe { places.3.read_volatile() }, 3500);
    assert!(bench.control.peek(device, 3500) == pattern(5000)[1500..]);
    bench.assert_clean();
}

#[repr(C)]
struct Entry(i32, u64, i64, i64, usize, usize, i32, usize);

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Event(usize, i32, usize);

#[test]
fn a_batch_answers_an_event_for_each_entry() {
    let bench = Bench::new();
    let set_up = function!(bench, "cuFileBatchIOSetUp": fn(*mut usize, u32) -> i64);
    let submit = function!(bench, "cuFileBatchIOSubmit": fn(usize, u32, *const Entry, u32) -> i64);
    let collect = function!(bench, "cuFileBatchIOGetStatus": fn(usize, u32, *mut u32, *mut Event, *const c_void) -> i64);
    let destroy = function!(bench, "cuFileBatchIODestroy": fn(usize) -> ());
    let (cufile, mut file): (_, File) = (bench.fakes.cufile(), tempfile::tempfile().unwrap());
    file.write_all(&pattern(100)).unwrap();
    // SAFETY: the file outlives the handle's use.
    let handle = unsafe { cufile.register(file.as_raw_fd()) }.unwrap();
    let device = bench.cuda.alloc(50).unwrap();
    let entries = [Entry(1, device, 20, 10, 40, handle.0, 0, 7), Entry(1, device, 0, 0, 51, handle.0, 0, 8)];
    let (mut batch, mut count, mut events) = (0, 2, [Event::default(); 2]);
    // SAFETY: a place for the answer.
    assert_eq!(unsafe { set_up(&raw mut batch, 2) }, 0);
    // SAFETY: two entries.
    assert_eq!(unsafe { submit(batch, 2, entries.as_ptr(), 0) }, 0);
    // SAFETY: room for two events.
    let status = unsafe { collect(batch, 2, &raw mut count, events.as_mut_ptr(), std::ptr::null()) };
    assert_eq!((status, count), (0, 2));
    assert_eq!(events, [Event(7, 16, 40), Event(8, 64, 0)]);
    assert!(bench.control.peek(device + 10, 40) == pattern(100)[20..60]);
    // SAFETY: not used again.
    unsafe { destroy(batch) };
}
