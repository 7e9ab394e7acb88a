//! Streams and events: order, completion, and what happens to those who do not wait.

use kvikio_sys::cuda::{CuStatus, STREAM_DEFAULT, Stream};

use crate::{Bench, at, pattern};

const NON_BLOCKING: u32 = 1;
const LEGACY: Stream = Stream(0);
/// Long enough for the calling thread to look before the copy runs.
const DELAY_US: i64 = 100_000;

#[test]
fn a_copy_is_invisible_until_its_event() {
    let bench = Bench::new();
    let stream = bench.cuda.create_stream(STREAM_DEFAULT).unwrap();
    let event = bench.cuda.create_event(2).unwrap();
    assert_eq!(bench.cuda.is_event_done(event), Ok(true), "never recorded");
    let (device, host, back) = (bench.cuda.alloc(3).unwrap(), bench.pinned(b"new"), bench.pinned(b"old"));
    bench.control.set("hold_copies", 1);
    // SAFETY: all sides hold 3 bytes and stay alone until the event.
    unsafe { bench.cuda.copy_to_device_async(device, host, 3, stream) }.unwrap();
    // SAFETY: as above.
    unsafe { bench.cuda.copy_to_host_async(back, device, 3, stream) }.unwrap();
    bench.cuda.record_event(event, stream).unwrap();
    assert_eq!(bench.cuda.is_event_done(event), Ok(false));
    assert_eq!((bench.control.peek(device, 3), at(back, 3)), (vec![0; 3], b"old".to_vec()));
    bench.control.set("hold_copies", 0);
    bench.cuda.synchronize_event(event).unwrap();
    assert_eq!(bench.cuda.is_event_done(event), Ok(true));
    assert_eq!((bench.control.peek(device, 3), at(back, 3)), (b"new".to_vec(), b"new".to_vec()));
    assert_eq!(bench.control.counter("pageable_copies"), 0);
    bench.assert_clean();
}

#[test]
fn reusing_a_source_too_early_is_a_violation_and_gives_wrong_data() {
    let bench = Bench::new();
    let stream = bench.cuda.create_stream(STREAM_DEFAULT).unwrap();
    let (device, host) = (bench.cuda.alloc(3).unwrap(), bench.pinned(b"one"));
    bench.control.set("hold_copies", 1);
    // SAFETY: both sides hold 3 bytes. That the source is changed meanwhile is what is tested.
    unsafe { bench.cuda.copy_to_device_async(device, host, 3, stream) }.unwrap();
    // SAFETY: 3 bytes of ours.
    unsafe { host.copy_from(b"two".as_ptr(), 3) };
    bench.control.set("hold_copies", 0);
    bench.cuda.synchronize_stream(stream).unwrap();
    assert_eq!(bench.control.peek(device, 3), b"two");
    assert_eq!(bench.control.counter("violations"), 1);
    assert!(bench.control.violation().unwrap().contains("source of a copy of 3 bytes changed"));
}

#[test]
fn freeing_host_memory_under_a_copy_is_a_violation() {
    let bench = Bench::new();
    let stream = bench.cuda.create_stream(STREAM_DEFAULT).unwrap();
    let (device, host) = (bench.cuda.alloc(3).unwrap(), bench.pinned(b"abc"));
    bench.control.set("copy_delay_us", DELAY_US);
    // SAFETY: both sides hold 3 bytes.
    unsafe { bench.cuda.copy_to_device_async(device, host, 3, stream) }.unwrap();
    // SAFETY: not used again; the pending copy is what is tested.
    unsafe { bench.cuda.host_free(host) }.unwrap();
    assert!(bench.control.violation().unwrap().contains("while a copy was pending"));
    // Like the driver, freeing waited.
    assert_eq!(bench.control.peek(device, 3), b"abc");
}

#[test]
fn blocking_streams_follow_the_legacy_stream_and_others_do_not() {
    let bench = Bench::new();
    let blocking = bench.cuda.create_stream(STREAM_DEFAULT).unwrap();
    let free = bench.cuda.create_stream(NON_BLOCKING).unwrap();
    let device = bench.cuda.alloc(3).unwrap();
    let (source, after, apart) = (bench.pinned(b"new"), bench.pinned(b"---"), bench.pinned(b"---"));
    bench.control.set("copy_delay_us", DELAY_US);
    // SAFETY: both sides hold 3 bytes and stay alone until the streams are synchronised.
    unsafe { bench.cuda.copy_to_device_async(device, source, 3, LEGACY) }.unwrap();
    bench.control.set("copy_delay_us", 0);
    for (stream, to) in [(blocking, after), (free, apart)] {
        // SAFETY: as above.
        unsafe { bench.cuda.copy_to_host_async(to, device, 3, stream) }.unwrap();
    }
    bench.cuda.synchronize_stream(free).unwrap();
    bench.cuda.synchronize_stream(blocking).unwrap();
    assert_eq!((at(after, 3), at(apart, 3)), (b"new".to_vec(), vec![0; 3]));
    bench.assert_clean();
}

#[test]
fn the_legacy_stream_waits_for_blocking_streams() {
    let bench = Bench::new();
    let blocking = bench.cuda.create_stream(STREAM_DEFAULT).unwrap();
    let (device, source) = (bench.cuda.alloc(3).unwrap(), bench.pinned(b"new"));
    bench.control.set("copy_delay_us", DELAY_US);
    // SAFETY: both sides hold 3 bytes and stay alone until the copy back, which waits.
    unsafe { bench.cuda.copy_to_device_async(device, source, 3, blocking) }.unwrap();
    let mut back = [0; 3];
    // SAFETY: both sides hold 3 bytes.
    unsafe { bench.cuda.copy_to_host(back.as_mut_ptr(), device, 3) }.unwrap();
    assert_eq!(&back, b"new");
}

#[test]
fn pageable_memory_is_staged_or_waited_for_and_counted() {
    let bench = Bench::new();
    let stream = bench.cuda.create_stream(STREAM_DEFAULT).unwrap();
    let device = bench.cuda.alloc(1000).unwrap();
    bench.control.set("copy_delay_us", 20_000);
    let mut source = pattern(1000);
    // SAFETY: both sides hold 1000 bytes; pageable sources may be used again at once.
    unsafe { bench.cuda.copy_to_device_async(device, source.as_ptr(), 1000, stream) }.unwrap();
    source.fill(0);
    // SAFETY: both sides hold 1000 bytes; pageable destinations are complete on return.
    unsafe { bench.cuda.copy_to_host_async(source.as_mut_ptr(), device, 1000, stream) }.unwrap();
    assert_eq!(source, pattern(1000));
    assert_eq!(bench.control.counter("pageable_copies"), 2);
    bench.assert_clean();
}

#[test]
fn handles_of_another_device_are_refused() {
    let bench = Bench::new();
    let stream = bench.cuda.create_stream(STREAM_DEFAULT).unwrap();
    let event = bench.cuda.create_event(2).unwrap();
    bench.cuda.push_context(bench.cuda.primary_context(1).unwrap()).unwrap();
    assert_eq!(bench.cuda.synchronize_stream(stream), Err(CuStatus(400)));
    assert_eq!(bench.cuda.record_event(event, LEGACY), Err(CuStatus(400)));
    bench.control.set("strict_context", 0);
    assert_eq!(bench.cuda.synchronize_stream(stream), Ok(()));
    assert_eq!(bench.cuda.record_event(event, LEGACY), Err(CuStatus(400)), "two devices in one call");
    bench.cuda.pop_context().unwrap();
    // SAFETY: not used again.
    unsafe { bench.cuda.destroy_stream(stream) }.unwrap();
    assert_eq!(bench.cuda.synchronize_stream(stream), Err(CuStatus(400)));
    // SAFETY: not used again.
    unsafe { bench.cuda.destroy_event(event) }.unwrap();
    assert_eq!((bench.control.counter("live_streams"), bench.control.counter("live_events")), (0, 0));
}
