//! The event loops' threads: none before the first request, none after the last handle is gone.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use kvikio::{Engine, Environment, Options, Platform, Remote};
use kvikio_testkit::server::{Fault, Script, Server};

fn loops() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with("kvikio-io")).count()
}

#[test]
fn threads_come_with_the_first_request_and_go_with_the_last_handle() {
    let script = Script::new().object("/o", vec![7; 200_000]);
    let server = Server::start(script.always("/o", Fault::Trickle(50_000, Duration::from_millis(30))));
    let engine = Engine::new(Platform::of(None, None, "/".as_ref()), 2);
    let remote = Remote::new(&engine, &Options::default(), &Environment::of(|_| None));
    let file = remote.open_http(&server.url("/o"), Some(200_000), Options::default()).unwrap();
    assert_eq!(loops(), 0, "opening with a size asks nothing");
    file.read_exact_into(&mut [0; 10], 0).unwrap();
    assert!(loops() > 0);
    let transfer = file.read_exact_at(vec![0; 200_000], 0);
    drop((file, remote));
    let (result, buf) = transfer.wait();
    assert_eq!((result.unwrap(), buf), (200_000, vec![7; 200_000]), "what is under way comes to its end");
    let deadline = Instant::now() + Duration::from_secs(20);
    while loops() > 0 {
        assert!(Instant::now() < deadline, "{} loops are still there", loops());
        std::thread::sleep(Duration::from_millis(5));
    }
}
