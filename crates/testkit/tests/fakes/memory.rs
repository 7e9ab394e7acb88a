//! Memory: what the driver says about addresses, and who may touch them.

use kvikio_sys::cuda::{Context, CuStatus, MemoryType};

use crate::{Bench, at, pattern};

#[test]
fn nothing_works_before_init() {
    let fakes = kvikio_testkit::fakes::Fakes::install();
    let cuda = fakes.cuda();
    assert_eq!(cuda.device_count(), Err(CuStatus::NOT_INITIALIZED));
    assert_eq!(cuda.pointer_info(4096), Err(CuStatus::NOT_INITIALIZED));
    assert_eq!(cuda.alloc(16), Err(CuStatus::NOT_INITIALIZED));
    assert_eq!(cuda.driver_version(), Ok(13000));
    assert_eq!(cuda.describe(CuStatus(2)), "CUDA_ERROR_OUT_OF_MEMORY(out of memory)");
}

#[test]
fn a_current_context_is_required_and_is_per_thread() {
    let bench = Bench::new();
    let address = bench.cuda.alloc(16).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(bench.cuda.alloc(16), Err(CuStatus::INVALID_CONTEXT));
            assert_eq!(bench.cuda.host_alloc(16, 1), Err(CuStatus::INVALID_CONTEXT));
            // SAFETY: both sides hold a byte.
            let copied = unsafe { bench.cuda.copy_to_device(address, b"x".as_ptr(), 1) };
            assert_eq!(copied, Err(CuStatus::INVALID_CONTEXT));
            // SAFETY: refused. The missing context comes before the bad address.
            let copied = unsafe { bench.cuda.copy_to_device(1, b"x".as_ptr(), 1) };
            assert_eq!(copied, Err(CuStatus::INVALID_CONTEXT));
            assert_eq!(bench.cuda.current_device(), Err(CuStatus::INVALID_CONTEXT));
            assert_eq!(bench.cuda.pop_context(), Err(CuStatus::INVALID_CONTEXT));
            assert_eq!(bench.cuda.current_context(), Ok(None));
            assert!(bench.cuda.pointer_info(address).is_ok());
        });
    });
    assert_eq!(bench.control.counter("contexts_pushed"), 1);
    assert!(bench.cuda.pop_context().is_ok());
    assert_eq!(bench.control.counter("contexts_pushed"), 0);
    assert_eq!(bench.cuda.push_context(Context(0xDEAD)), Err(CuStatus::INVALID_CONTEXT));
}

#[test]
fn each_kind_of_memory_is_told_apart() {
    let bench = Bench::new();
    let cuda = &bench.cuda;
    let context = cuda.current_context().unwrap().unwrap();

    let plain = cuda.pointer_info(pattern(16).as_ptr() as u64).unwrap();
    assert_eq!((plain.memory_type, plain.context, plain.device), (MemoryType::UNREGISTERED, Context(0), -2));

    let device = cuda.alloc(100).unwrap();
    let info = cuda.pointer_info(device + 99).unwrap();
    assert_eq!((info.memory_type, info.context, info.device), (MemoryType::DEVICE, context, 0));
    assert!(!info.is_managed);
    assert_eq!(cuda.address_range(device + 99), Ok((device, 100)));
    assert_eq!(cuda.pointer_info(device + 100).unwrap().memory_type, MemoryType::UNREGISTERED);

    let managed = cuda.alloc_managed(100).unwrap();
    let info = cuda.pointer_info(managed).unwrap();
    assert_eq!((info.memory_type, info.is_managed), (MemoryType::DEVICE, true));

    let pinned = cuda.host_alloc(100, 1).unwrap();
    assert_eq!(pinned as usize % 4096, 0);
    assert_eq!(cuda.pointer_info(pinned as u64 + 1).unwrap().memory_type, MemoryType::HOST);
    assert_eq!(bench.control.counter("live_host_bytes"), 100);

    let pooled = pool_alloc(&bench, 100);
    let info = cuda.pointer_info(pooled + 1).unwrap();
    assert_eq!((info.memory_type, info.context, info.device), (MemoryType::DEVICE, Context(0), 0));
    bench.assert_clean();
}

fn pool_alloc(bench: &Bench, len: usize) -> u64 {
    type AllocAsync = unsafe extern "C" fn(*mut u64, usize, usize) -> i32;
    // SAFETY: the double's own library, already loaded.
    let library = unsafe { libloading::Library::new(bench.fakes.cuda_path()) }.unwrap();
    // SAFETY: the type is the function's in CUDA's header.
    let alloc = unsafe { library.get::<AllocAsync>("cuMemAllocAsync") }.unwrap();
    let mut address = 0;
    // SAFETY: a place for the answer; 0 is the default stream.
    assert_eq!(unsafe { alloc(&raw mut address, len, 0) }, 0);
    std::mem::forget(library);
    address
}

#[test]
fn registered_host_memory_is_page_locked_until_unregistered() {
    let bench = Bench::new();
    let mut memory = pattern(4096);
    let address = memory.as_mut_ptr();
    let kind = || bench.cuda.pointer_info(address as u64 + 5).unwrap().memory_type;
    // SAFETY: the vector outlives the registration.
    unsafe { bench.cuda.host_register(address, 4096, 1) }.unwrap();
    assert_eq!(kind(), MemoryType::HOST);
    // SAFETY: as above; it is refused.
    let again = unsafe { bench.cuda.host_register(address.wrapping_add(100), 8, 1) };
    assert_eq!(again, Err(CuStatus(712)));
    // SAFETY: no copy is pending.
    unsafe { bench.cuda.host_unregister(address) }.unwrap();
    assert_eq!(kind(), MemoryType::UNREGISTERED);
    // SAFETY: as above; it is refused.
    assert_eq!(unsafe { bench.cuda.host_unregister(address) }, Err(CuStatus(713)));
}

#[test]
fn host_limit_makes_page_locking_fail() {
    let bench = Bench::new();
    bench.control.set("host_limit", 1000);
    let first = bench.cuda.host_alloc(600, 1).unwrap();
    assert_eq!(bench.cuda.host_alloc(600, 1), Err(CuStatus::OUT_OF_MEMORY));
    // SAFETY: unused.
    unsafe { bench.cuda.host_free(first) }.unwrap();
    assert!(bench.cuda.host_alloc(600, 1).is_ok());
    assert_eq!(bench.control.counter("peak_host_bytes"), 600);
}

#[test]
fn copies_reach_into_an_allocation_but_not_past_it() {
    let bench = Bench::new();
    let device = bench.cuda.alloc(100).unwrap();
    bench.control.poke(device, &pattern(100));
    // SAFETY: 10 bytes from 50 on lie inside; so do the bytes of the literal.
    unsafe { bench.cuda.copy_to_device(device + 50, b"0123456789".as_ptr(), 10) }.unwrap();
    let mut expected = pattern(100);
    expected[50..60].copy_from_slice(b"0123456789");
    assert_eq!(bench.control.peek(device, 100), expected);

    let mut back = vec![0; 101];
    // SAFETY: the vector holds 101 bytes; the copy past the allocation is refused.
    let past = unsafe { bench.cuda.copy_to_host(back.as_mut_ptr(), device, 101) };
    assert_eq!(past, Err(CuStatus::INVALID_VALUE));
    // SAFETY: the vector holds 100 bytes and so does the allocation.
    unsafe { bench.cuda.copy_to_host(back.as_mut_ptr(), device, 100) }.unwrap();
    assert_eq!(back[..100], expected);
    // SAFETY: unused; interior addresses are refused.
    assert_eq!(unsafe { bench.cuda.free(device + 1) }, Err(CuStatus::INVALID_VALUE));
    // SAFETY: unused from here on.
    unsafe { bench.cuda.free(device) }.unwrap();
    // SAFETY: the freed address is refused.
    let freed = unsafe { bench.cuda.copy_to_host(back.as_mut_ptr(), device, 1) };
    assert_eq!(freed, Err(CuStatus::INVALID_VALUE));
    assert_eq!(bench.control.counter("live_allocations"), 0);
}

#[test]
fn managed_memory_is_shared_with_the_cpu() {
    let bench = Bench::new();
    let managed = bench.cuda.alloc_managed(16).unwrap();
    // SAFETY: managed memory may be touched by the CPU; 16 bytes are allocated.
    unsafe { (managed as *mut u8).copy_from(b"hello".as_ptr(), 5) };
    assert_eq!(bench.control.peek(managed, 5), b"hello");
    // SAFETY: 16 bytes are allocated.
    unsafe { bench.cuda.fill(managed, 9, 16) }.unwrap();
    bench.cuda.synchronize_stream(kvikio_sys::cuda::Stream(0)).unwrap();
    assert_eq!(at(managed as *const u8, 16), [9; 16]);
}

#[test]
fn a_copy_does_not_mind_whose_context_is_current() {
    let bench = Bench::new();
    let device = bench.cuda.alloc(4).unwrap();
    let other = bench.cuda.primary_context(1).unwrap();
    bench.cuda.push_context(other).unwrap();
    // SAFETY: both sides hold 4 bytes.
    unsafe { bench.cuda.copy_to_device(device, b"abcd".as_ptr(), 4) }.unwrap();
    assert_eq!(bench.control.peek(device, 4), b"abcd");
    assert_eq!(bench.cuda.pointer_info(device).unwrap().device, 0);
}
