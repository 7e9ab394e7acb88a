//! One suite for everything that claims to be a file: random reads and writes, compared with a plain vector.
//!
//! A [`Subject`] says how to make a file that holds given bytes; a [`Kind`] says in which memory the buffers live. The
//! same cases run for every pair: memory, local files through the page cache and around it, fake and real devices.

use std::sync::Arc;

use kvikio::{ErrorKind, File, IoBufMut, Key, Options, Value};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// A file under test.
pub trait Subject {
    /// A file, open for reading and writing, that holds `bytes`.
    fn make(&self, bytes: &[u8], options: &Options) -> File;

    /// The bytes that the file holds now, by way of something else than the file itself where that is possible.
    fn bytes(&self, file: &File) -> Vec<u8>;

    /// False for what can only be read: writes are left out then.
    fn is_writable(&self) -> bool {
        true
    }

    /// How many random cases to run.
    fn cases(&self) -> u32 {
        48
    }
}

/// A kind of memory.
pub trait Kind {
    /// Its buffer.
    type Buf: IoBufMut;

    /// A buffer that holds `bytes`.
    fn buf(&self, bytes: &[u8]) -> Self::Buf;

    /// What a buffer holds.
    fn bytes(&self, buf: &Self::Buf) -> Vec<u8>;
}

/// Ordinary memory.
#[derive(Debug, Clone, Copy)]
pub struct Host;

impl Kind for Host {
    type Buf = Vec<u8>;
    fn buf(&self, bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }
    fn bytes(&self, buf: &Vec<u8>) -> Vec<u8> {
        buf.clone()
    }
}

/// Device memory of an engine's platform.
#[derive(Debug, Clone)]
pub struct OnDevice {
    /// The engine that allocates.
    pub engine: kvikio::Engine,
    /// The device's ordinal.
    pub device: i32,
}

impl Kind for OnDevice {
    type Buf = kvikio::DeviceBuf;
    fn buf(&self, bytes: &[u8]) -> kvikio::DeviceBuf {
        let mut buf = self.engine.device_buf(self.device, bytes.len()).expect("device memory");
        buf.fill_from(bytes).expect("a copy to the device");
        buf
    }
    fn bytes(&self, buf: &kvikio::DeviceBuf) -> Vec<u8> {
        buf.to_vec().expect("a copy from the device")
    }
}

/// The settings that change how bytes travel, small enough that every path is met with small files.
#[derive(Debug, Clone)]
pub struct Tuning {
    task_size: u64,
    bounce: u64,
    threshold: u64,
    direct: bool,
}

impl Tuning {
    fn strategy() -> impl Strategy<Value = Self> {
        let sizes = || prop::sample::select(vec![1_u64, 199, 1000, 4096, 5000, 9420, 16384, 1 << 20]);
        let threshold = prop::sample::select(vec![0_u64, 16 << 10, 1 << 20]);
        (sizes(), sizes(), threshold, any::<bool>()).prop_map(|(task_size, bounce, threshold, direct)| Self {
            // A task a byte is a case of its own; with larger files it is only slow.
            task_size: task_size.max(64),
            bounce: bounce.max(64),
            threshold,
            direct,
        })
    }

    fn options(&self) -> Options {
        let set = |options: Options, key, value| options.with(key, value).expect("a legal value");
        let options = set(Options::default(), Key::TaskSize, Value::Int(self.task_size));
        let options = set(options, Key::BounceBufferSize, Value::Int(self.bounce));
        let options = set(options, Key::GdsThreshold, Value::Int(self.threshold));
        let options = set(options, Key::AutoDirectIoRead, Value::Bool(self.direct));
        set(options, Key::AutoDirectIoWrite, Value::Bool(self.direct))
    }
}

#[derive(Debug, Clone)]
enum Step {
    Read { offset: usize, len: usize },
    Write { offset: usize, len: usize, seed: u8 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let place = || (0..60_000_usize, prop_oneof![0..5000_usize, 4096..=4096_usize, 0..40_000_usize]);
    let step = prop_oneof![
        place().prop_map(|(offset, len)| Step::Read { offset, len }),
        (place(), any::<u8>()).prop_map(|((offset, len), seed)| Step::Write { offset, len, seed }),
    ];
    prop::collection::vec(step, 1..8)
}

/// Bytes that differ at every offset and from one seed to the next.
#[must_use]
pub fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| ((at * 31 + at / 251) as u8).wrapping_add(seed)).collect()
}

/// Runs all cases of the suite.
///
/// # Panics
/// Where a case fails: it is a test.
pub fn check<K: Kind>(subject: &dyn Subject, kind: &K, base: &Options) {
    random_steps_match_a_vector(subject, kind, base);
    the_end_of_the_file(subject, kind, base);
    nothing_is_nothing(subject, kind, base);
    offsets_that_do_not_fit(subject, kind, base);
}

fn merged(base: &Options, tuning: &Tuning) -> Options {
    let mut options = tuning.options();
    for key in [Key::CompatMode, Key::NumThreads] {
        if base.is_set(key) {
            options.set(key, base.get(key)).expect("a value that was legal before");
        }
    }
    options
}

fn random_steps_match_a_vector<K: Kind>(subject: &dyn Subject, kind: &K, base: &Options) {
    let mut runner =
        TestRunner::new(Config { cases: subject.cases(), failure_persistence: None, ..Config::default() });
    let cases = (Tuning::strategy(), 0..60_000_usize, steps());
    let outcome = runner.run(&cases, |(tuning, len, steps)| {
        let mut model = pattern(len, 1);
        let file = subject.make(&model, &merged(base, &tuning));
        for step in steps {
            match step {
                Step::Read { offset, len } => read(kind, &file, &model, offset, len)?,
                Step::Write { .. } if !subject.is_writable() => {}
                Step::Write { offset, len, seed } => {
                    let new = pattern(len, seed);
                    let (result, _buf) = file.write_at(kind.buf(&new), offset as u64).wait();
                    prop_assert_eq!(result.unwrap(), len);
                    if len > 0 {
                        let grown = model.len().max(offset + len);
                        model.resize(grown, 0);
                        model[offset..offset + len].copy_from_slice(&new);
                    }
                }
            }
        }
        let bytes = subject.bytes(&file);
        prop_assert_eq!(bytes.len(), model.len());
        prop_assert!(bytes == model, "the file differs from the model");
        Ok(())
    });
    if let Err(why) = outcome {
        panic!("{why}");
    }
}

fn read<K: Kind>(
    kind: &K,
    file: &File,
    model: &[u8],
    offset: usize,
    len: usize,
) -> std::result::Result<(), TestCaseError> {
    let expected = model.get(offset..).unwrap_or_default();
    let expected = &expected[..expected.len().min(len)];
    let (result, buf) = file.read_at(kind.buf(&vec![0xEE; len]), offset as u64).wait();
    prop_assert_eq!(result.unwrap(), expected.len());
    let bytes = kind.bytes(&buf);
    prop_assert!(&bytes[..expected.len()] == expected, "wrong bytes at {} + {}", offset, len);
    prop_assert!(
        bytes[expected.len()..].iter().all(|byte| *byte == 0xEE),
        "bytes beyond the end were touched"
    );
    Ok(())
}

fn the_end_of_the_file<K: Kind>(subject: &dyn Subject, kind: &K, base: &Options) {
    let content = pattern(10_000, 3);
    let file = subject.make(&content, base);
    let (result, buf) = file.read_exact_at(kind.buf(&[0; 6000]), 5000).wait();
    let error = result.expect_err("a read across the end is not exact");
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    assert_eq!(error.done(), Some(5000));
    assert_eq!(error.range(), Some(5000..11_000));
    assert_eq!(kind.bytes(&buf)[..5000], content[5000..], "what there was has been read");
    for offset in [10_000, 10_001, 1 << 40] {
        let (result, _) = file.read_at(kind.buf(&[0; 10]), offset).wait();
        assert_eq!(result.expect("a short read"), 0, "at {offset}");
    }
}

fn nothing_is_nothing<K: Kind>(subject: &dyn Subject, kind: &K, base: &Options) {
    let file = subject.make(&[], base);
    for offset in [0, 5, u64::MAX] {
        assert_eq!(file.read_exact_at(kind.buf(&[]), offset).wait().0.expect("no byte"), 0, "at {offset}");
        if subject.is_writable() {
            assert_eq!(file.write_at(kind.buf(&[]), offset).wait().0.expect("no byte"), 0, "at {offset}");
        }
    }
    assert_eq!(file.read_at(kind.buf(&[0; 4]), 0).wait().0.expect("an empty file"), 0);
    assert!(subject.bytes(&file).is_empty(), "writing nothing far out does not make the file longer");
}

fn offsets_that_do_not_fit<K: Kind>(subject: &dyn Subject, kind: &K, base: &Options) {
    let file = subject.make(b"abc", base);
    for offset in [u64::MAX, u64::MAX - 2, i64::MAX as u64] {
        let read = file.read_at(kind.buf(&[0; 4]), offset).wait().0.expect_err("too far");
        assert_eq!(read.kind(), ErrorKind::Overflow, "at {offset}: {read}");
        if subject.is_writable() {
            let write = file.write_at(kind.buf(&[0; 4]), offset).wait().0.expect_err("too far");
            assert_eq!(write.kind(), ErrorKind::Overflow, "at {offset}: {write}");
        }
    }
    assert_eq!(subject.bytes(&file), b"abc");
}

/// The subject made of [`kvikio::InMemory`].
#[derive(Debug)]
pub struct Memory {
    /// The engine that serves it.
    pub engine: kvikio::Engine,
    made: std::sync::Mutex<Option<Arc<kvikio::InMemory>>>,
}

impl Memory {
    /// Served by `engine`.
    #[must_use]
    pub fn new(engine: kvikio::Engine) -> Self {
        Self { engine, made: std::sync::Mutex::default() }
    }
}

impl Subject for Memory {
    fn make(&self, bytes: &[u8], options: &Options) -> File {
        let source = Arc::new(kvikio::InMemory::from(bytes.to_vec()));
        *self.made.lock().expect("one thread") = Some(source.clone());
        File::of(source, self.engine.clone(), options.clone())
    }

    fn bytes(&self, _file: &File) -> Vec<u8> {
        self.made.lock().expect("one thread").as_ref().map(|source| source.to_vec()).unwrap_or_default()
    }
}

/// The subject made of a file in `dir`.
#[derive(Debug)]
pub struct OnDisk {
    /// The engine that serves it.
    pub engine: kvikio::Engine,
    /// The folder, which decides the file system.
    pub dir: std::path::PathBuf,
    /// How many random cases to run.
    pub cases: u32,
}

impl OnDisk {
    fn path(&self) -> std::path::PathBuf {
        self.dir.join("subject")
    }
}

impl Subject for OnDisk {
    fn make(&self, bytes: &[u8], options: &Options) -> File {
        std::fs::write(self.path(), bytes).expect("a file");
        File::options()
            .read(true)
            .write(true)
            .engine(&self.engine)
            .options(options.clone())
            .open(self.path())
            .expect("the file just made")
    }

    fn bytes(&self, _file: &File) -> Vec<u8> {
        std::fs::read(self.path()).expect("the file just written")
    }

    fn cases(&self) -> u32 {
        self.cases
    }
}
