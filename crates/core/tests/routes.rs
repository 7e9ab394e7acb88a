//! Which route a device transfer takes, why, and what happens when a vendor library fails on the way.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use kvikio::{DeviceBuf, Engine, Error, ErrorKind, File, Key, LocalIo, Options, Platform, Route, Value};
use kvikio_testkit::conformance::pattern;
use kvikio_testkit::fakes::Fakes;

const LEN: usize = 1 << 20;

/// A machine: doubles of the libraries, a folder that stands for `/`, and a file on its disk.
struct Machine {
    fakes: Fakes,
    root: tempfile::TempDir,
    disk: tempfile::TempDir,
}

impl Machine {
    /// One on which everything is as GPUDirect Storage wants it.
    fn with_gds() -> Self {
        let machine = Self {
            fakes: Fakes::install(),
            root: tempfile::tempdir().unwrap(),
            disk: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(),
        };
        std::fs::write(machine.path(), pattern(LEN, 1)).unwrap();
        std::fs::create_dir_all(machine.at("run/udev")).unwrap();
        std::fs::create_dir_all(machine.at("proc/driver/nvidia-fs")).unwrap();
        machine.disk_is("nvme0n1");
        machine
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn path(&self) -> PathBuf {
        self.disk.path().join("data")
    }

    /// Makes `/sys` say that the file's disk is called `name`.
    fn disk_is(&self, name: &str) {
        let dev = std::fs::metadata(self.path()).unwrap().dev();
        let (major, minor) = (libc_major(dev), libc_minor(dev));
        let device = self.at(&format!("sys/devices/pci/{name}"));
        std::fs::create_dir_all(&device).unwrap();
        let block = self.at("sys/dev/block");
        std::fs::create_dir_all(&block).unwrap();
        let link = block.join(format!("{major}:{minor}"));
        let _ = std::fs::remove_file(&link);
        symlink(&device, link).unwrap();
    }

    fn engine(&self) -> Engine {
        Engine::new(Platform::of(Some(self.fakes.cuda()), Some(self.fakes.cufile()), self.root.path()), 3)
    }

    fn open(&self, engine: &Engine, route: LocalIo) -> Result<File, Error> {
        File::options().read(true).write(true).engine(engine).options(small_tasks(route)).open(self.path())
    }

    /// The reason of a file opened with AUTO, and its route.
    fn decided(&self) -> (Route, String) {
        let file = self.open(&self.engine(), LocalIo::Auto).unwrap();
        (file.route(), file.route_reason().to_owned())
    }

    fn keeps_the_rules(&self) {
        let control = self.fakes.control();
        assert_eq!(control.counter("violations"), 0, "{:?}", control.violation());
        self.comes_to_nothing("contexts_pushed");
    }

    /// A lane leaves its context a moment after the transfer it worked for has ended.
    fn comes_to_nothing(&self, counter: &str) {
        let control = self.fakes.control();
        for _ in 0..5000 {
            if control.counter(counter) == 0 {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        panic!("{counter} is {} after 5 s", control.counter(counter));
    }
}

fn libc_major(dev: u64) -> u64 {
    ((dev >> 8) & 0xfff) | ((dev >> 32) & !0xfff)
}

fn libc_minor(dev: u64) -> u64 {
    (dev & 0xff) | ((dev >> 12) & !0xff)
}

fn small_tasks(route: LocalIo) -> Options {
    [
        (Key::TaskSize, Value::Int(64 << 10)),
        (Key::BounceBufferSize, Value::Int(16 << 10)),
        (Key::CompatMode, Value::LocalIo(route)),
    ]
    .into_iter()
    .fold(Options::default(), |options, (key, value)| options.with(key, value).unwrap())
}

fn is_on_ext4_or_xfs(path: &Path) -> bool {
    let out = std::process::Command::new("stat").args(["-f", "-c", "%T"]).arg(path).output().unwrap();
    let name = String::from_utf8_lossy(&out.stdout).trim().to_owned();
    let is_known = name.starts_with("ext") || name == "xfs";
    if !is_known {
        eprintln!("skipped: the build folder is on {name}, which the rules do not send to cuFile");
    }
    is_known
}

fn read(file: &File, engine: &Engine) -> Result<DeviceBuf, Error> {
    let (result, buf) = file.read_exact_at(engine.device_buf(0, LEN)?, 0).wait();
    result.map(|_| buf)
}

#[test]
fn auto_takes_cufile_where_the_direct_path_is_in_use() {
    let machine = Machine::with_gds();
    if !is_on_ext4_or_xfs(&machine.path()) {
        return;
    }
    let engine = machine.engine();
    let file = machine.open(&engine, LocalIo::Auto).unwrap();
    assert_eq!(file.route(), Route::Direct, "{}", file.route_reason());
    assert_eq!(file.route_reason(), "cuFile's driver serves this file directly (Nvme)");
    assert_eq!(read(&file, &engine).unwrap().to_vec().unwrap(), pattern(LEN, 1));
    let control = machine.fakes.control();
    assert_eq!(control.calls("cuFileRead"), 16, "one call a task");
    assert_eq!(control.calls("cuMemcpyHtoDAsync_v2"), 0, "nothing went through host memory");
    machine.keeps_the_rules();
}

#[test]
fn each_rule_that_keeps_auto_from_cufile_says_so() {
    type Spoil = fn(&Machine);
    let cases: [(&str, Spoil); 7] = [
        ("/run/udev is not there", |machine| std::fs::remove_dir(machine.at("run/udev")).unwrap()),
        ("does not work under WSL", |machine| {
            std::fs::create_dir_all(machine.at("proc/sys/kernel")).unwrap();
            std::fs::write(machine.at("proc/sys/kernel/osrelease"), "5.15-microsoft-standard-WSL2").unwrap();
        }),
        ("no direct path for this file system or device", |machine| machine.disk_is("vda")),
        ("the nvidia-fs driver is not loaded", |machine| {
            machine.disk_is("sda");
            std::fs::remove_dir(machine.at("proc/driver/nvidia-fs")).unwrap();
        }),
        ("no direct path for this storage", |machine| machine.fakes.control().set("status_flags", 0)),
        ("nvidia-fs driver is not loaded", |machine| machine.fakes.control().set("driver_open_status", 5001)),
        ("file descriptor is not registered", |machine| machine.fakes.control().set("register_status", 5027)),
    ];
    for (words, spoil) in cases {
        let machine = Machine::with_gds();
        if !is_on_ext4_or_xfs(&machine.path()) {
            return;
        }
        spoil(&machine);
        let (route, reason) = machine.decided();
        assert_eq!(route, Route::Staged, "{words}");
        assert!(reason.contains(words), "{reason:?} does not say {words:?}");
        let engine = machine.engine();
        let file = machine.open(&engine, LocalIo::Auto).unwrap();
        assert_eq!(read(&file, &engine).unwrap().to_vec().unwrap(), pattern(LEN, 1), "{words}");
    }
}

#[test]
fn compat_mode_on_never_wakes_cufile_and_off_insists_on_it() {
    let machine = Machine::with_gds();
    let engine = machine.engine();
    let file = machine.open(&engine, LocalIo::Posix).unwrap();
    assert_eq!(file.route(), Route::Staged);
    read(&file, &engine).unwrap();
    assert_eq!(machine.fakes.control().calls("cuFileDriverOpen"), 0);

    machine.fakes.control().set("register_status", 5027);
    let error = machine.open(&engine, LocalIo::CuFile).unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::CuFile, Some(5027)));
    assert!(error.to_string().contains("file descriptor is not registered"), "{error}");
    assert_eq!(error.subject(), Some(machine.path().to_str().unwrap()));

    let without = Engine::new(Platform::of(Some(machine.fakes.cuda()), None, machine.root.path()), 1);
    assert_eq!(machine.open(&without, LocalIo::CuFile).unwrap_err().kind(), ErrorKind::Unavailable);
}

#[test]
fn a_cufile_call_that_fails_sends_the_file_to_the_staged_route_once() {
    let machine = Machine::with_gds();
    if !is_on_ext4_or_xfs(&machine.path()) {
        return;
    }
    let control = machine.fakes.control();
    let engine = machine.engine();
    let file = machine.open(&engine, LocalIo::Auto).unwrap();
    control.fail("cuFileRead", 3, 5010);
    assert_eq!(read(&file, &engine).unwrap().to_vec().unwrap(), pattern(LEN, 1), "every byte all the same");
    assert_eq!(file.route(), Route::Staged);
    assert!(file.route_reason().contains("nvidia-fs driver ioctl error"), "{}", file.route_reason());
    let calls = control.calls("cuFileRead");
    read(&file, &engine).unwrap();
    assert_eq!(control.calls("cuFileRead"), calls, "cuFile is not asked again for this file");
    let another = machine.open(&engine, LocalIo::Auto).unwrap();
    assert_eq!(another.route(), Route::Direct, "other files are not concerned");

    let insists = machine.open(&engine, LocalIo::CuFile).unwrap();
    control.fail("cuFileWrite", 0, 5010);
    let (result, _buf) = insists.write_at(engine.device_buf(0, LEN).unwrap(), 0).wait();
    let error = result.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::CuFile, Some(5010)));
    machine.keeps_the_rules();
}

#[test]
fn a_failing_driver_call_is_an_error_and_leaks_nothing() {
    let symbols = [
        "cuPointerGetAttributes",
        "cuCtxPushCurrent_v2",
        "cuStreamCreate",
        "cuEventCreate",
        "cuEventRecord",
        "cuStreamWaitEvent",
        "cuMemHostAlloc",
        "cuMemcpyHtoDAsync_v2",
        "cuMemcpyDtoHAsync_v2",
        "cuEventSynchronize",
    ];
    for symbol in symbols {
        for nth in [1, 2, 5] {
            let machine = Machine::with_gds();
            let engine = machine.engine();
            let control = machine.fakes.control();
            control.set("copy_delay_us", 50);
            let file = machine.open(&engine, LocalIo::Posix).unwrap();
            let (to, from) = (engine.device_buf(0, LEN).unwrap(), engine.device_buf(1, LEN).unwrap());
            control.fail(symbol, nth, 700);
            let (read, to) = file.read_exact_at(to, 0).wait();
            let (written, from) = file.write_at(from, 0).wait();
            let failures: Vec<_> = [read.err(), written.err()].into_iter().flatten().collect();
            for error in &failures {
                assert_eq!(
                    (error.kind(), error.code()),
                    (ErrorKind::Cuda, Some(700)),
                    "{symbol} {nth}: {error}"
                );
                assert_eq!(error.range(), Some(0..LEN as u64));
            }
            // A lane whose first block is refused takes another's when that comes back.
            let is_excused = nth > 1 || symbol == "cuMemHostAlloc";
            assert!(is_excused || !failures.is_empty(), "the first {symbol} failed and nobody noticed");
            control.fail(symbol, -1, 0);
            let (again, to) = file.read_exact_at(to, 0).wait();
            assert_eq!(again.unwrap(), LEN, "{symbol} {nth}: the engine works again");
            assert_eq!(to.to_vec().unwrap(), std::fs::read(machine.path()).unwrap());
            drop((to, from, file, engine));
            machine.keeps_the_rules();
            for counter in ["live_allocations", "live_host_allocations", "live_streams", "live_events"] {
                // The context that cannot be entered may be the one in which an event was to be given back.
                if (symbol, counter) != ("cuCtxPushCurrent_v2", "live_events") {
                    machine.comes_to_nothing(counter);
                }
            }
        }
    }
}

#[test]
fn without_page_locked_memory_every_lane_gives_up() {
    let machine = Machine::with_gds();
    let engine = machine.engine();
    let control = machine.fakes.control();
    for _ in 0..50 {
        let file = machine.open(&engine, LocalIo::Posix).unwrap();
        let to = engine.device_buf(0, LEN).unwrap();
        control.fail("cuMemHostAlloc", 0, 2);
        let transfer = file.read_exact_at(to, 0);
        assert!(
            transfer.wait_for(std::time::Duration::from_secs(20)),
            "a lane waits for a block that never comes"
        );
        assert_eq!(transfer.wait().0.unwrap_err().code(), Some(2));
        control.fail("cuMemHostAlloc", -1, 0);
    }
}

#[test]
fn a_file_that_cannot_be_opened_for_cufile_keeps_its_bytes() {
    let machine = Machine::with_gds();
    let engine = Engine::new(Platform::of(Some(machine.fakes.cuda()), None, machine.root.path()), 1);
    let options = Options::default().with(Key::CompatMode, Value::LocalIo(LocalIo::CuFile)).unwrap();
    let opened =
        File::options().write(true).truncate(true).engine(&engine).options(options).open(machine.path());
    assert_eq!(opened.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(std::fs::read(machine.path()).unwrap(), pattern(LEN, 1));
    File::options().write(true).truncate(true).engine(&engine).open(machine.path()).unwrap();
    assert_eq!(std::fs::metadata(machine.path()).unwrap().len(), 0);
}

#[test]
fn a_full_disk_is_no_reason_to_give_cufile_up() {
    let machine = Machine::with_gds();
    let engine = machine.engine();
    let file = machine.open(&engine, LocalIo::Auto).unwrap();
    assert_eq!(file.route(), Route::Direct);
    machine.fakes.control().fail("cuFileWrite", 1, 28);
    let (result, buf) = file.write_at(engine.device_buf(0, LEN).unwrap(), 0).wait();
    assert_eq!(result.unwrap_err().kind(), ErrorKind::StorageFull);
    machine.fakes.control().fail("cuFileWrite", -1, 0);
    assert_eq!(file.route(), Route::Direct);
    assert_eq!(file.write_at(buf, 0).wait().0.unwrap(), LEN);
}

#[test]
fn page_locked_memory_is_bounded_and_given_back() {
    let machine = Machine::with_gds();
    let control = machine.fakes.control();
    let engine = machine.engine();
    let file = machine.open(&engine, LocalIo::Posix).unwrap();
    let transfers: Vec<_> =
        (0..12).map(|_| file.read_exact_at(engine.device_buf(0, LEN).unwrap(), 0)).collect();
    for transfer in transfers {
        assert_eq!(transfer.wait().0.unwrap(), LEN);
    }
    let bound = 3 * 2 * (16 << 10);
    assert!(control.counter("peak_host_bytes") <= bound, "{} bytes", control.counter("peak_host_bytes"));
    let held = engine.bounce_bytes();
    assert!(held > 0);
    assert_eq!(engine.free_bounce_buffers(), held);
    assert_eq!(control.counter("live_host_bytes"), 0);
    assert_eq!(engine.free_bounce_buffers(), 0);
}

#[test]
fn small_device_transfers_are_done_when_the_call_returns() {
    let machine = Machine::with_gds();
    let engine = machine.engine();
    let file = machine.open(&engine, LocalIo::Posix).unwrap();
    let transfer = file.read_at(engine.device_buf(0, 4096).unwrap(), 4096);
    assert!(transfer.is_done());
    assert_eq!(transfer.wait().1.to_vec().unwrap(), pattern(LEN, 1)[4096..8192]);
    assert_eq!(machine.fakes.control().counter("live_streams"), 0, "no stream was needed");
}

#[test]
fn a_transfer_comes_after_earlier_work_on_the_default_stream() {
    let machine = Machine::with_gds();
    let engine = machine.engine();
    let cuda = engine.platform().cuda().unwrap().table().clone();
    let file = machine.open(&engine, LocalIo::Posix).unwrap();
    let buf = engine.device_buf(0, LEN).unwrap();
    let address = kvikio::IoBuf::address(&buf) as u64;
    let pinned = {
        let mut pinned = engine.pinned(0, LEN).unwrap();
        pinned.fill(0xAA);
        pinned
    };
    // A slow copy on the legacy default stream, still running when the transfer is asked for: it writes 0xAA over the
    // buffer, and must not land on top of what the transfer brings.
    machine.fakes.control().set("copy_delay_us", 20_000);
    let context = engine.platform().cuda().unwrap().primary_context(0).unwrap();
    cuda.push_context(context).unwrap();
    #[allow(unsafe_code)]
    // SAFETY: both sides hold LEN bytes and live until the stream is done, which the transfer waits for.
    unsafe { cuda.copy_to_device_async(address, pinned.as_ptr(), LEN, kvikio::sys::cuda::Stream(0)) }
        .unwrap();
    cuda.pop_context().unwrap();
    machine.fakes.control().set("copy_delay_us", 0);
    let (result, buf) = file.read_exact_at(buf, 0).wait();
    assert_eq!(result.unwrap(), LEN);
    assert_eq!(buf.to_vec().unwrap(), pattern(LEN, 1));
    machine.keeps_the_rules();
}

#[test]
fn machines_without_a_gpu_say_what_is_missing() {
    let nothing = Engine::new(Platform::of(None, None, "/".as_ref()), 1);
    assert_eq!(nothing.device_buf(0, 1).unwrap_err().kind(), ErrorKind::Unavailable);

    let stub = Machine::with_gds();
    stub.fakes.control().set("stub", 1);
    let error = stub.engine().device_buf(0, 1).unwrap_err();
    assert!(error.message().contains("is a stub library"), "{error}");

    let bare = Machine::with_gds();
    bare.fakes.control().set("devices", 0);
    assert!(bare.engine().device_buf(0, 1).unwrap_err().message().contains("no device"));

    let old = Fakes::install().without_symbol("cuMemHostAlloc");
    let missing = kvikio::sys::cuda::Table::open_at(&old.cuda_path()).unwrap_err();
    assert!(missing.to_string().ends_with("has no symbol cuMemHostAlloc"), "{missing}");
}
