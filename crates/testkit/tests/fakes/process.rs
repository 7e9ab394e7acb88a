//! What only a process of its own can show.

use kvikio_sys::cuda::{CuStatus, Stream};

use crate::Bench;

/// Runs `body` in a forked child; answers the child's wait status.
fn forked(body: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child only runs `body`, which takes no lock that another thread may hold, and ends by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = body();
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: our own child, and a place for the answer.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status
}

#[test]
fn the_cpu_may_not_touch_device_memory() {
    let bench = Bench::new();
    let device = bench.cuda.alloc(16).unwrap();
    let status = forked(|| {
        // SAFETY: not safe: that the child dies of it is what is tested.
        i32::from(unsafe { (device as *const u8).read_volatile() })
    });
    assert!(libc::WIFSIGNALED(status), "{status}");
    assert_eq!(libc::WTERMSIG(status), libc::SIGSEGV);
}

#[test]
fn a_forked_child_has_no_driver() {
    let bench = Bench::new();
    let status = forked(|| match bench.cuda.synchronize_stream(Stream(0)) {
        Err(CuStatus(code)) => code,
        Ok(()) => 99,
    });
    assert!(libc::WIFEXITED(status), "{status}");
    assert_eq!(libc::WEXITSTATUS(status), CuStatus::NOT_INITIALIZED.0);
    assert_eq!(bench.cuda.synchronize_stream(Stream(0)), Ok(()));
}
