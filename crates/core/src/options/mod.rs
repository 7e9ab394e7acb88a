//! The table of settings, the plain struct that carries their values, and the only code that reads the environment.
//!
//! Every setting is one row of [`SETTINGS`]: its name, environment variables, type, least value and meaning. Where the
//! user set nothing, [`Options::get`] answers what we choose; [`Options::is_set`] tells the two apart.

mod parse;
mod table;

use std::num::NonZero;

use crate::error::{Error, ErrorKind, Result};

pub use parse::Environment;
pub use table::{Key, LocalIo, SETTINGS, Setting, Value, find};

/// The most worker threads that we choose by ourselves: more add nothing to a copy out of the page cache
/// (measured: `docs/measurements.md`).
const MOST_THREADS: u64 = 10;
const MIB: u64 = 1 << 20;

/// The values that the user set; what is not set is chosen by us.
///
/// ```
/// use kvikio::{Key, Options, Value};
/// let options = Options::default().with(Key::TaskSize, Value::Int(1 << 20)).unwrap();
/// assert!(options.is_set(Key::TaskSize) && !options.is_set(Key::NumThreads));
/// assert!(options.num_threads() >= 1);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    set: [Option<Value>; SETTINGS.len()],
}

impl Options {
    /// Reads all settings from the process environment.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] naming the first malformed variable and its value.
    pub fn from_env() -> Result<Self> {
        Self::from(&Environment::process())
    }

    /// Reads all settings from `environment`.
    ///
    /// # Errors
    /// As [`Options::from_env`].
    pub fn from(environment: &Environment<'_>) -> Result<Self> {
        let mut options = Self::default();
        for setting in &SETTINGS {
            if let Some(value) = parse::read(setting, environment)? {
                options.set[setting.key as usize] = Some(value);
            }
        }
        Ok(options)
    }

    /// Sets one value.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for a value of another type or below the least.
    pub fn set(&mut self, key: Key, value: Value) -> Result<()> {
        let setting = &SETTINGS[key as usize];
        let refuse = |words: &str| Err(Error::new(ErrorKind::InvalidInput, "set", words).on(setting.name));
        if std::mem::discriminant(&value) != std::mem::discriminant(&Self::default().get(key)) {
            return refuse("a value of another type");
        }
        match &value {
            Value::Int(number) if *number < setting.min => return refuse(setting.too_small),
            Value::Choice(word) if !setting.choices.contains(word) => return refuse("an unknown choice"),
            _ => {}
        }
        self.set[key as usize] = Some(value);
        Ok(())
    }

    /// The options with one value set.
    ///
    /// # Errors
    /// As [`Options::set`].
    pub fn with(mut self, key: Key, value: Value) -> Result<Self> {
        self.set(key, value)?;
        Ok(self)
    }

    /// Makes one value ours to choose again.
    pub fn unset(&mut self, key: Key) {
        self.set[key as usize] = None;
    }

    /// True where the user set the value.
    #[must_use]
    pub fn is_set(&self, key: Key) -> bool {
        self.set[key as usize].is_some()
    }

    /// The value in force: the user's, else the one we choose.
    #[must_use]
    pub fn get(&self, key: Key) -> Value {
        self.set[key as usize].clone().unwrap_or_else(|| chosen(key))
    }

    fn int(&self, key: Key) -> u64 {
        match self.set[key as usize].as_ref() {
            Some(Value::Int(number)) => *number,
            Some(_) => 0,
            None => match chosen(key) {
                Value::Int(number) => number,
                _ => 0,
            },
        }
    }

    fn size(&self, key: Key) -> usize {
        usize::try_from(self.int(key)).unwrap_or(usize::MAX)
    }

    fn switch(&self, key: Key) -> bool {
        match self.set[key as usize].as_ref() {
            Some(value) => *value == Value::Bool(true),
            None => chosen(key) == Value::Bool(true),
        }
    }

    /// Which route local files may take.
    #[must_use]
    pub fn local_io(&self) -> LocalIo {
        match self.get(Key::CompatMode) {
            Value::LocalIo(route) => route,
            _ => LocalIo::Auto,
        }
    }

    /// Worker threads, at least 1.
    #[must_use]
    pub fn num_threads(&self) -> usize {
        self.size(Key::NumThreads)
    }

    /// Bytes that one task moves, at least 1.
    #[must_use]
    pub fn task_size(&self) -> usize {
        self.size(Key::TaskSize)
    }

    /// Device transfers below so many bytes run on the calling thread.
    #[must_use]
    pub fn gds_threshold(&self) -> usize {
        self.size(Key::GdsThreshold)
    }

    /// Bytes of one bounce buffer, at least 1.
    #[must_use]
    pub fn bounce_buffer_size(&self) -> usize {
        self.size(Key::BounceBufferSize)
    }

    /// Whether aligned parts are read around the page cache.
    #[must_use]
    pub fn direct_read(&self) -> bool {
        self.switch(Key::AutoDirectIoRead)
    }

    /// Whether aligned parts are written around the page cache.
    #[must_use]
    pub fn direct_write(&self) -> bool {
        self.switch(Key::AutoDirectIoWrite)
    }
}

/// What we choose where the user set nothing.
fn chosen(key: Key) -> Value {
    match key {
        Key::CompatMode => Value::LocalIo(LocalIo::Auto),
        Key::NumThreads => Value::Int(cpus().clamp(2, MOST_THREADS)),
        Key::TaskSize | Key::BounceBufferSize => Value::Int(4 * MIB),
        Key::GdsThreshold => Value::Int(16 << 10),
        Key::AutoDirectIoWrite | Key::HttpRetryNotice => Value::Bool(true),
        Key::AutoDirectIoRead | Key::AutoDirectIoReadOverread | Key::ThreadPoolPerBlockDevice => {
            Value::Bool(false)
        }
        Key::HttpMaxAttempts => Value::Int(3),
        Key::HttpTimeout => Value::Int(60),
        Key::HttpStatusCodes => Value::Codes(vec![429, 500, 502, 503, 504]),
        Key::RemoteIoBackend => Value::Choice("EASY_THREADPOOL"),
        Key::RemoteIoNumReactors => Value::Int(1),
        Key::RemoteIoReactorDispatch => Value::Choice("PER_CHUNK"),
        Key::RemoteIoMaxConcurrentRequests => Value::Int(256),
    }
}

fn cpus() -> u64 {
    std::thread::available_parallelism().map_or(1, NonZero::get) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_its_keys_and_names_are_unique() {
        for (index, setting) in SETTINGS.iter().enumerate() {
            assert_eq!(setting.key as usize, index, "{}", setting.name);
            assert_eq!(find(setting.name).unwrap().key, setting.key);
        }
        assert_eq!(find("thread_pool_nthreads").unwrap().key, Key::NumThreads);
        assert!(find("set_task_size").is_none());
    }

    #[test]
    fn a_value_of_another_type_or_too_small_changes_nothing() {
        let mut options = Options::default();
        assert!(options.set(Key::TaskSize, Value::Bool(true)).is_err());
        let error = options.set(Key::NumThreads, Value::Int(0)).unwrap_err();
        assert!(error.message().contains("positive integer"), "{error}");
        assert!(options.set(Key::RemoteIoBackend, Value::Choice("PER_CHUNK")).is_err());
        assert_eq!(options, Options::default());
        options.set(Key::GdsThreshold, Value::Int(0)).unwrap();
        assert_eq!(options.gds_threshold(), 0);
    }
}
