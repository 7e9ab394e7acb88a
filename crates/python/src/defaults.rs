//! The settings that new calls use: read from the environment once, changed by `kvikio.defaults`.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError};
use std::time::Duration;

use arc_swap::ArcSwap;
use kvikio::{Key, LocalIo, Options, SETTINGS, Setting, Value, find_setting};
use pyo3::exceptions::{PyKeyError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use crate::arguments::{Count, type_name};
use crate::{engine, errors, gil};

static CHANGES: Mutex<()> = Mutex::new(());

static OPTIONS: OnceLock<ArcSwap<Options>> = OnceLock::new();

const USAGE: &str = "Valid arguments are kvikio.defaults.set(config: dict) or \
                     kvikio.defaults.set(key: str, value: Any)";

/// A change: which settings, and what they are to be (`None`: ours to choose).
type Change = Vec<(Key, Option<Value>)>;

fn cell(py: Python<'_>) -> PyResult<&'static ArcSwap<Options>> {
    if let Some(cell) = OPTIONS.get() {
        return Ok(cell);
    }
    let options = Options::from_env().map_err(|error| errors::exception(py, &error, None))?;
    Ok(OPTIONS.get_or_init(|| ArcSwap::from_pointee(options)))
}

/// The settings in force now.
pub(crate) fn current(py: Python<'_>) -> PyResult<Arc<Options>> {
    Ok(cell(py)?.load_full())
}

fn setting(name: &str) -> PyResult<&'static Setting> {
    find_setting(name).ok_or_else(|| PyKeyError::new_err(name.to_owned()))
}

/// The right to change settings. Other Python threads go on while this waits for it.
fn turn(py: Python<'_>) -> MutexGuard<'static, ()> {
    loop {
        match CHANGES.try_lock() {
            Ok(turn) => return turn,
            Err(TryLockError::Poisoned(turn)) => return turn.into_inner(),
            Err(TryLockError::WouldBlock) => {
                gil::detached(py, || std::thread::sleep(Duration::from_millis(1)));
            }
        }
    }
}

/// Puts all of `change` in force, or none of it; answers what undoes it.
fn apply(py: Python<'_>, change: &Change) -> PyResult<Change> {
    let cell = cell(py)?;
    let changed = |before: &Options| {
        let mut options = before.clone();
        for (key, value) in change {
            match value {
                Some(value) => options.set(*key, value.clone())?,
                None => options.unset(*key),
            }
        }
        Ok(options)
    };
    let raise = |error: kvikio::Error| errors::exception(py, &error, None);
    // One change at a time, so that settings and pool agree. Nothing within asks for the interpreter.
    let _turn = turn(py);
    changed(&cell.load()).map_err(raise)?;
    // Checked above: a change that is good for one set of options is good for any.
    let before = cell.rcu(|before| changed(before).unwrap_or_else(|_| Options::clone(before)));
    if change.iter().any(|(key, _)| *key == Key::NumThreads) {
        let threads = cell.load().num_threads();
        gil::detached(py, || engine::resize(threads)).map_err(raise)?;
    }
    let old = |key: Key| before.is_set(key).then(|| before.get(key));
    Ok(change.iter().map(|(key, _)| (*key, old(*key))).collect())
}

/// What `kvikio.defaults.set` returns: used in a `with` statement it puts back what was there before.
#[pyclass(module = "kvikio.defaults", frozen)]
pub(crate) struct ConfigContextManager {
    undo: Change,
}

#[pymethods]
impl ConfigContextManager {
    /// Does nothing: the values were set when this was made.
    fn __enter__(&self) {}

    /// Puts the old values back.
    #[pyo3(signature = (*_exc))]
    fn __exit__(&self, py: Python<'_>, _exc: &Bound<'_, PyTuple>) -> PyResult<()> {
        apply(py, &self.undo).map(drop)
    }
}

/// Changes settings for all later calls in this process.
///
/// Call it as `set(config: dict)` or `set(key: str, value)`. Either all values are taken or none is. Used in a `with`
/// statement, the old values return at its end.
///
/// Raises `KeyError` for an unknown name, `TypeError`, `ValueError` or `OverflowError` for a bad value.
#[pyfunction]
#[pyo3(signature = (*config), text_signature = "(config, value=..., /)")]
pub(crate) fn set(py: Python<'_>, config: &Bound<'_, PyTuple>) -> PyResult<ConfigContextManager> {
    let mut change = Change::new();
    match config.len() {
        1 => {
            let only = config.get_item(0)?;
            let config = only.cast::<PyDict>().map_err(|_| PyValueError::new_err(USAGE))?;
            for (name, value) in config {
                let name = name.cast::<PyString>().map_err(|_| PyKeyError::new_err(name.clone().unbind()))?;
                change.push(parse(setting(&name.to_cow()?)?, &value)?);
            }
        }
        2 => {
            let name = config.get_item(0)?;
            let name = name.cast::<PyString>().map_err(|_| PyValueError::new_err(USAGE))?;
            change.push(parse(setting(&name.to_cow()?)?, &config.get_item(1)?)?);
        }
        _ => return Err(PyValueError::new_err(USAGE)),
    }
    Ok(ConfigContextManager { undo: apply(py, &change)? })
}

/// The value of a setting: the one that was set, else the one we choose.
///
/// Raises `KeyError` for an unknown name, and `ValueError` where a `KVIKIO_*` environment variable is malformed.
#[pyfunction]
pub(crate) fn get<'py>(py: Python<'py>, config_name: &str) -> PyResult<Bound<'py, PyAny>> {
    let key = setting(config_name)?.key;
    present(py, key, current(py)?.get(key))
}

/// True where the setting was set, by the environment or by `set`; False where its value is our choice.
#[pyfunction]
pub(crate) fn is_set(py: Python<'_>, config_name: &str) -> PyResult<bool> {
    let key = setting(config_name)?.key;
    Ok(current(py)?.is_set(key))
}

/// All settings: for each name a dict of its `value`, whether it `is_set`, its `environment` variables and its `doc`.
#[pyfunction]
pub(crate) fn describe(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let options = current(py)?;
    let all = PyDict::new(py);
    for setting in &SETTINGS {
        let row = PyDict::new(py);
        row.set_item("value", present(py, setting.key, options.get(setting.key))?)?;
        row.set_item("is_set", options.is_set(setting.key))?;
        row.set_item("environment", PyTuple::new(py, setting.env)?)?;
        row.set_item("doc", setting.doc)?;
        all.set_item(setting.name, row)?;
    }
    Ok(all)
}

/// True where files opened now would not use cuFile: the mode is ON, or it is AUTO and cuFile is not to be had.
#[pyfunction]
pub(crate) fn is_compat_mode_preferred(py: Python<'_>) -> PyResult<bool> {
    let options = current(py)?;
    let platform = engine::engine(py, &options)?.platform();
    Ok(match options.local_io() {
        LocalIo::Posix => true,
        LocalIo::CuFile => false,
        LocalIo::Auto => {
            !gil::detached(py, || platform.cufile().is_ok() && platform.has_udev() && !platform.is_wsl())
        }
    })
}

/// The names of the enumerations in `kvikio._lib.defaults`.
fn enumeration(key: Key) -> &'static str {
    match key {
        Key::RemoteIoBackend => "RemoteIOBackend",
        Key::RemoteIoReactorDispatch => "RemoteReactorDispatch",
        _ => "CompatMode",
    }
}

fn present(py: Python<'_>, key: Key, value: Value) -> PyResult<Bound<'_, PyAny>> {
    let number = match value {
        Value::Bool(switch) => return Ok(switch.into_pyobject(py)?.to_owned().into_any()),
        Value::Int(number) => return Ok(number.into_pyobject(py)?.into_any()),
        Value::Codes(codes) => return Ok(PyList::new(py, codes)?.into_any()),
        Value::LocalIo(LocalIo::CuFile) => 0,
        Value::LocalIo(LocalIo::Posix) => 1,
        Value::LocalIo(LocalIo::Auto) => 2,
        Value::Choice(word) => {
            let choices = SETTINGS.iter().find(|row| row.key == key).map_or(&[][..], |row| row.choices);
            choices.iter().position(|choice| *choice == word).unwrap_or(0)
        }
    };
    py.import("kvikio._lib.defaults")?.getattr(enumeration(key))?.call1((number,))
}

fn parse(setting: &Setting, value: &Bound<'_, PyAny>) -> PyResult<(Key, Option<Value>)> {
    let value = match setting.key {
        Key::CompatMode => Value::LocalIo(match number_below(value, 3, "compat_mode")? {
            0 => LocalIo::CuFile,
            1 => LocalIo::Posix,
            _ => LocalIo::Auto,
        }),
        Key::HttpStatusCodes => Value::Codes(codes(value)?),
        Key::HttpTimeout => match value.extract::<i64>()? {
            seconds @ 1.. => Value::Int(seconds.unsigned_abs()),
            _ => return Err(PyValueError::new_err(setting.too_small)),
        },
        Key::AutoDirectIoRead
        | Key::AutoDirectIoWrite
        | Key::AutoDirectIoReadOverread
        | Key::HttpRetryNotice
        | Key::ThreadPoolPerBlockDevice => Value::Bool(value.is_truthy()?),
        Key::RemoteIoBackend | Key::RemoteIoReactorDispatch => {
            let index = number_below(value, setting.choices.len(), setting.name)?;
            Value::Choice(setting.choices.get(index).copied().unwrap_or_default())
        }
        Key::NumThreads => match value.extract::<Count>()?.0 {
            number if u32::try_from(number).is_ok() => Value::Int(number),
            _ => return Err(PyOverflowError::new_err("value too large to convert to unsigned int")),
        },
        _ => Value::Int(value.extract::<Count>()?.0),
    };
    Ok((setting.key, Some(value)))
}

/// A number, or a member of an `IntEnum`, from 0 to `end - 1`.
fn number_below(value: &Bound<'_, PyAny>, end: usize, name: &str) -> PyResult<usize> {
    let index = value.py().import("operator")?.call_method1("index", (value,)).map_err(|_| {
        PyTypeError::new_err(format!(
            "{name} takes a member of its enumeration (kvikio.CompatMode and the like) or an int, not {}",
            type_name(value)
        ))
    })?;
    match index.extract::<usize>() {
        Ok(number) if number < end => Ok(number),
        _ => Err(PyValueError::new_err(format!("{index} is not a valid {name}"))),
    }
}

fn codes(value: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    let list = value.cast::<PyList>().map_err(|_| {
        PyTypeError::new_err(format!("http_status_codes is a list of int, not {}", type_name(value)))
    })?;
    list.iter()
        .map(|code| match code.extract::<i32>() {
            Ok(code) => Ok(i64::from(code)),
            Err(error) if error.is_instance_of::<PyOverflowError>(code.py()) => {
                Err(PyOverflowError::new_err("value too large to convert to int"))
            }
            Err(_) => Err(PyTypeError::new_err(format!("a status code is an int, not {}", type_name(&code)))),
        })
        .collect()
}
