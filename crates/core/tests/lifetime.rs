//! What is in flight owns its buffer and its file; dropping a handle is safe at any moment.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kvikio::{Engine, ErrorKind, File, IoBuf, IoBufMut, Key, Options, Platform, Value};
use kvikio_testkit::gate::{Fate, Gate};

fn engine(threads: usize) -> Engine {
    Engine::new(Platform::of(None, None, "/".as_ref()), threads)
}

fn gated(gate: &Arc<Gate>, threads: usize) -> File {
    let options = Options::default().with(Key::TaskSize, Value::Int(4096)).unwrap();
    File::of(gate.clone(), engine(threads), options)
}

/// A buffer that says when it is let go of.
struct Watched {
    bytes: Box<[u8]>,
    dropped: Arc<AtomicBool>,
}

impl Watched {
    fn new(len: usize) -> (Self, Arc<AtomicBool>) {
        let dropped = Arc::new(AtomicBool::new(false));
        (Self { bytes: vec![0; len].into(), dropped: dropped.clone() }, dropped)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.dropped.store(true, Ordering::SeqCst);
    }
}

#[allow(unsafe_code)]
// SAFETY: the boxed bytes do not move with the owner, which nobody touches while a transfer holds it.
unsafe impl IoBuf for Watched {
    fn address(&self) -> usize {
        self.bytes.as_ptr().expose_provenance()
    }
    fn byte_len(&self) -> usize {
        self.bytes.len()
    }
}
#[allow(unsafe_code)]
// SAFETY: the box has one owner.
unsafe impl IoBufMut for Watched {}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < end, "not within 20 s: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn dropped_transfer_keeps_its_buffer_until_the_last_task_ends() {
    let gate = Gate::closed(vec![7; 20_000]);
    let file = gated(&gate, 2);
    let (buf, dropped) = Watched::new(20_000);
    let transfer = file.read_at(buf, 0);
    gate.wait_entered(2);
    drop(transfer);
    drop(file);
    assert!(!dropped.load(Ordering::SeqCst), "two tasks are writing to it");
    gate.open(Fate::Succeed);
    eventually("the buffer is let go of", || dropped.load(Ordering::SeqCst));
    assert_eq!(gate.finished(), 5, "the transfer went on to its end");
}

#[test]
fn waiting_gives_the_buffer_back_well_or_not() {
    for (fate, kind) in
        [(Fate::Succeed, None), (Fate::Fail, Some(ErrorKind::Io)), (Fate::Panic, Some(ErrorKind::Io))]
    {
        let gate = Gate::closed(vec![7; 20_000]);
        let transfer = gated(&gate, 3).read_at(vec![0; 20_000], 0);
        assert!(!transfer.is_done());
        assert!(!transfer.wait_for(Duration::from_millis(5)));
        assert_eq!(transfer.result().unwrap_err().message(), "the transfer is still running");
        gate.open(fate);
        let (result, buf) = transfer.wait();
        assert_eq!(buf.len(), 20_000);
        assert_eq!(result.as_ref().err().map(kvikio::Error::kind), kind, "{fate:?}: {result:?}");
        if fate == Fate::Panic {
            assert_eq!(result.as_ref().unwrap_err().message(), "the source panicked");
        }
        if fate == Fate::Succeed {
            assert!(buf.iter().all(|byte| *byte == 7));
        }
    }
}

#[test]
fn a_failure_waits_for_running_tasks_and_starts_no_more() {
    let gate = Gate::closed(vec![7; 400_000]);
    let transfer = gated(&gate, 4).read_at(vec![0; 400_000], 0);
    gate.wait_entered(4);
    gate.open(Fate::Fail);
    let error = transfer.wait().0.unwrap_err();
    assert_eq!(error.subject(), Some("gate"));
    assert_eq!(error.range(), Some(0..400_000));
    assert_eq!(error.done(), Some(0));
    assert_eq!(gate.entered(), gate.finished(), "nothing runs after the result is known");
    assert!(gate.entered() < 98, "of 98 tasks only those that had begun: {}", gate.entered());
}

#[test]
fn a_panicking_source_does_not_leave_a_borrowed_buffer_in_flight() {
    let gate = Gate::closed(vec![7; 20_000]);
    gate.open(Fate::Panic);
    let file = gated(&gate, 3);
    let mut buf = vec![0; 20_000];
    assert_eq!(file.read_into(&mut buf, 0).unwrap_err().message(), "the source panicked");
    assert_eq!(gate.entered(), gate.finished());
}

#[test]
fn a_scope_waits_for_its_transfers_also_when_it_panics() {
    let gate = Gate::closed(vec![7; 8000]);
    let file = gated(&gate, 2);
    let mut buf = vec![0; 8000];
    let opener = gate.clone();
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        kvikio::scope(|scope| {
            let _pending = file.read_scoped(scope, &mut buf, 0);
            gate.wait_entered(1);
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                opener.open(Fate::Succeed);
            });
            panic!("on purpose");
        })
    }));
    assert!(unwound.is_err());
    assert_eq!(gate.finished(), 2, "both tasks had ended when the scope did");
    assert!(buf.iter().all(|byte| *byte == 7));
}

#[test]
fn files_close_when_the_last_transfer_ends() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    std::fs::write(&path, vec![5; 3 << 20]).unwrap();
    let open_count = || {
        std::fs::read_dir("/proc/self/fd")
            .unwrap()
            .flatten()
            .filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|target| target == path))
            .count()
    };
    let options = Options::default().with(Key::TaskSize, Value::Int(4096)).unwrap();
    let file = File::options().read(true).options(options).engine(&engine(2)).open(&path).unwrap();
    assert_eq!(open_count(), 1);
    let transfers: Vec<_> = (0..20).map(|_| file.read_at(vec![0; 3 << 20], 0)).collect();
    drop(file);
    for transfer in transfers {
        let (result, buf) = transfer.wait();
        assert_eq!(result.unwrap(), 3 << 20);
        assert!(buf.iter().all(|byte| *byte == 5));
    }
    eventually("the descriptor is closed", || open_count() == 0);
}

#[test]
fn many_threads_share_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let content: Vec<u8> = (0..1_000_000_u32).map(|at| (at / 3) as u8).collect();
    std::fs::write(&path, &content).unwrap();
    let options = Options::default().with(Key::TaskSize, Value::Int(5000)).unwrap();
    let file = File::options().read(true).options(options).engine(&engine(3)).open(&path).unwrap();
    std::thread::scope(|scope| {
        for number in 0..8_usize {
            let (file, content) = (&file, &content);
            scope.spawn(move || {
                for round in 0..20 {
                    let offset = (number * 7919 + round * 104_729) % 900_000;
                    let (result, buf) = file.read_exact_at(vec![0; 60_000], offset as u64).wait();
                    assert_eq!(result.unwrap(), 60_000);
                    assert!(buf == content[offset..offset + 60_000]);
                }
            });
        }
    });
}

#[test]
fn a_source_that_panics_while_device_memory_is_written_to_it_is_an_error() {
    let fakes = kvikio_testkit::fakes::Fakes::install();
    let engine = Engine::new(kvikio::Platform::of(Some(fakes.cuda()), None, "/".as_ref()), 1);
    let options = Options::default().with(Key::BounceBufferSize, Value::Int(4096)).unwrap();
    let gate = Gate::closed(Vec::new());
    gate.open(Fate::Panic);
    let file = File::of(gate.clone(), engine.clone(), options);
    // Three blocks: when the first is refused, the copy of the second is under way.
    let (result, _buf) = file.write_at(engine.device_buf(0, 3 * 4096).unwrap(), 0).wait();
    assert_eq!(result.unwrap_err().message(), "the source panicked");
    assert_eq!(gate.entered(), 1, "a source that has panicked is not asked again");
}

#[test]
fn a_cancelled_transfer_ends_with_the_tasks_that_are_running() {
    let gate = Gate::closed(vec![7; 400_000]);
    let transfer = gated(&gate, 2).read_at(vec![0; 400_000], 0);
    gate.wait_entered(2);
    transfer.cancel();
    assert!(!transfer.is_done(), "two tasks write to the buffer");
    gate.open(Fate::Succeed);
    assert_eq!(transfer.wait().0.unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!((gate.entered(), gate.finished()), (2, 2));
}

#[test]
fn a_wait_may_be_longer_than_the_clock_runs() {
    let gate = Gate::closed(vec![7; 10]);
    gate.open(Fate::Succeed);
    assert!(gated(&gate, 1).read_at(vec![0; 10], 0).wait_for(Duration::MAX));
}
