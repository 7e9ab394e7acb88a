//! Steering the doubles: failures on demand, absent functions, stub, no device, the environment, separate instances.

use std::process::Command;

use kvikio_sys::cuda::{CuStatus, Table, Unavailable};
use kvikio_sys::dylib::LoadError;
use kvikio_testkit::fakes::Fakes;

use crate::Bench;

#[test]
fn the_nth_call_fails_as_planned() {
    let bench = Bench::new();
    let alloc = || bench.cuda.alloc(16).map(drop);
    bench.control.fail("cuMemAlloc_v2", 2, 2);
    assert_eq!([alloc(), alloc(), alloc()], [Ok(()), Err(CuStatus::OUT_OF_MEMORY), Ok(())]);
    bench.control.fail("cuMemAlloc_v2", 0, 700);
    assert_eq!([alloc(), alloc()], [Err(CuStatus(700)); 2]);
    bench.control.fail("cuMemAlloc_v2", -1, 0);
    assert_eq!(alloc(), Ok(()));
    assert_eq!(bench.control.calls("cuMemAlloc_v2"), 6);
    bench.control.reset();
    assert_eq!(bench.control.calls("cuMemAlloc_v2"), 0);
}

#[test]
fn an_absent_function_is_not_found() {
    let fakes = Fakes::install().without_symbol("cuMemHostAlloc");
    match Table::open_at(&fakes.cuda_path()) {
        Err(LoadError::MissingSymbol { symbol, .. }) => assert_eq!(symbol, "cuMemHostAlloc"),
        other => panic!("{other:?}"),
    }
    let fakes = Fakes::install().without_symbol("cuDeviceGetPCIBusId").without_symbol("cuFileGetVersion");
    assert_eq!(fakes.cuda().start(), Ok(2));
    assert_eq!(fakes.cuda().device_pci_bus_id(0), Err(CuStatus::INVALID_VALUE));
    assert_eq!(fakes.cufile().version(), Ok(1070));
}

#[test]
fn instances_are_apart() {
    let (one, other) = (Bench::new(), Bench::new());
    let address = one.cuda.alloc(16).unwrap();
    one.control.set("devices", 1);
    assert_eq!((one.cuda.device_count(), other.cuda.device_count()), (Ok(1), Ok(2)));
    assert_eq!(one.control.counter("live_allocations"), 1);
    assert_eq!(other.control.counter("live_allocations"), 0);
    assert!(other.cuda.address_range(address).is_err());
}

#[test]
fn one_library_may_be_left_out() {
    let fakes = Fakes::install_only(true, false);
    assert!(fakes.cuda_path().exists());
    assert!(!fakes.cufile_path().exists());
    let fakes = Fakes::install_only(false, true);
    assert!(!fakes.cuda_path().exists());
    assert_eq!(fakes.cufile().open_driver(), Ok(()));
}

#[test]
fn a_stub_says_so() {
    let fakes = Fakes::install();
    fakes.control().set("stub", 1);
    assert!(matches!(fakes.cuda().start(), Err(Unavailable::Stub { .. })));
}

#[test]
fn no_device_is_its_own_status() {
    let fakes = Fakes::install();
    fakes.control().set("devices", 0);
    assert_eq!(fakes.cuda().start(), Err(Unavailable::NoDevice));
}

/// Runs itself again with the variable set, since it is read when the library loads.
#[test]
fn the_environment_steers_a_program() {
    if std::env::var_os("KVIKIO_FAKE").is_none() {
        let itself = std::env::current_exe().unwrap();
        let mut child = Command::new(itself);
        child.args(["--exact", "control::the_environment_steers_a_program"]);
        child.env("KVIKIO_FAKE", "devices=1,nvfs_major=7,fail:cuMemHostAlloc=2:2,nonsense=1");
        assert!(child.status().unwrap().success());
        return;
    }
    let fakes = Fakes::install();
    let cuda = fakes.cuda();
    assert_eq!(cuda.start(), Ok(1));
    cuda.push_context(cuda.primary_context(0).unwrap()).unwrap();
    assert!(cuda.host_alloc(16, 1).is_ok());
    assert_eq!(cuda.host_alloc(16, 1), Err(CuStatus::OUT_OF_MEMORY));
    assert_eq!(fakes.cufile().properties().unwrap().nvfs_major, 7);
    assert!(fakes.control().violation().unwrap().contains("nonsense=1"));
}
