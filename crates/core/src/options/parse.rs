//! Settings out of environment variables, with the grammar that KvikIO's users know.

use std::ffi::OsString;

use crate::error::{Error, ErrorKind, Result};
use crate::options::table::{Key, LocalIo, Setting, Value};

/// Where variables are looked up: the process's environment, or a test's own.
pub struct Environment<'a>(Lookup<'a>);

type Lookup<'a> = Box<dyn Fn(&str) -> Option<OsString> + 'a>;

impl<'a> Environment<'a> {
    /// The environment of this process, as it is at each look-up.
    #[must_use]
    pub fn process() -> Self {
        Self(Box::new(|name| std::env::var_os(name)))
    }

    /// An environment made of a function.
    pub fn of(lookup: impl Fn(&str) -> Option<OsString> + 'a) -> Self {
        Self(Box::new(lookup))
    }

    /// The text of a variable; bytes that are not UTF-8 are replaced.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<String> {
        (self.0)(name).map(|text| text.to_string_lossy().into_owned())
    }
}

impl std::fmt::Debug for Environment<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Environment")
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidInput, "read the environment", message)
}

/// The value of `setting` in `environment`, `None` where it is not set.
pub(super) fn read(setting: &Setting, environment: &Environment<'_>) -> Result<Option<Value>> {
    let mut found: Option<(&str, String)> = None;
    for name in setting.env {
        let Some(text) = environment.get(name) else { continue };
        if let Some((first, other)) = &found
            && *other != text
        {
            return Err(invalid(format!(
                "Environment variable {name} ({text}) has already been set by its alias {first} ({other}) \
                 with a different value."
            )));
        }
        found = Some((name, text));
    }
    found.map_or(Ok(None), |(name, text)| value(setting, name, &text))
}

fn value(setting: &Setting, name: &str, text: &str) -> Result<Option<Value>> {
    let unknown = || invalid(format!("unknown config value {name}={text}"));
    Ok(Some(match setting.key {
        Key::CompatMode => Value::LocalIo(local_io(text)?),
        Key::AutoDirectIoRead
        | Key::AutoDirectIoWrite
        | Key::AutoDirectIoReadOverread
        | Key::HttpRetryNotice
        | Key::ThreadPoolPerBlockDevice => Value::Bool(switch(text).ok_or_else(unknown)?),
        Key::HttpStatusCodes => match codes(text) {
            Some(codes) if codes.is_empty() => return Ok(None),
            Some(codes) => Value::Codes(codes),
            None => {
                return Err(invalid(format!("{name}: invalid format, expected comma-separated integers.")));
            }
        },
        Key::RemoteIoBackend | Key::RemoteIoReactorDispatch => {
            let word = token(text);
            let known = setting.choices.iter().find(|choice| choice.eq_ignore_ascii_case(word));
            Value::Choice(known.ok_or_else(unknown)?)
        }
        _ => {
            let number = integer(text).ok_or_else(unknown)?;
            match u64::try_from(number) {
                Ok(number) if number >= setting.min => Value::Int(number),
                _ if setting.min > 0 => return Err(invalid(format!("{name} has to be a positive integer"))),
                _ => return Err(invalid(format!("{name} has to be a non-negative integer"))),
            }
        }
    }))
}

fn token(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

/// An integer at the start of the text; what follows the digits is ignored, as upstream's users are used to.
fn integer(text: &str) -> Option<i64> {
    let text = text.trim_start();
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let number: i64 = digits.get(..end)?.parse().ok()?;
    Some(if negative { -number } else { number })
}

fn switch(text: &str) -> Option<bool> {
    if let Some(number) = integer(text) {
        return Some(number != 0);
    }
    match token(text).to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" => Some(true),
        "false" | "off" | "no" => Some(false),
        _ => None,
    }
}

fn local_io(text: &str) -> Result<LocalIo> {
    let word = token(text).to_ascii_lowercase();
    match word.as_str() {
        "on" | "true" | "yes" | "1" => Ok(LocalIo::Posix),
        "off" | "false" | "no" | "0" => Ok(LocalIo::CuFile),
        "auto" => Ok(LocalIo::Auto),
        _ => Err(invalid(format!("Unknown compatibility mode: {word}"))),
    }
}

fn codes(text: &str) -> Option<Vec<i64>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    text.split(',')
        .map(str::trim)
        .map(|code| {
            let is_code = code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_digit());
            if is_code { code.parse().ok() } else { None }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    fn options(pairs: &[(&str, &str)]) -> Result<Options> {
        Options::from(&Environment::of(|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
        }))
    }

    #[test]
    fn numbers_are_read_as_a_c_stream_reads_them() {
        for (text, size) in [
            ("4x", 4),
            ("4MiB", 4),
            ("1.5", 1),
            ("1e2", 1),
            ("  7", 7),
            ("+3", 3),
            ("5000000000", 5_000_000_000),
        ] {
            assert_eq!(options(&[("KVIKIO_TASK_SIZE", text)]).unwrap().task_size(), size, "{text:?}");
        }
        for text in ["", "x", "-", "99999999999999999999"] {
            let error = options(&[("KVIKIO_TASK_SIZE", text)]).unwrap_err();
            assert_eq!(error.message(), format!("unknown config value KVIKIO_TASK_SIZE={text}"));
        }
        for text in ["0", "-1"] {
            let error = options(&[("KVIKIO_TASK_SIZE", text)]).unwrap_err();
            assert_eq!(error.message(), "KVIKIO_TASK_SIZE has to be a positive integer");
        }
    }

    #[test]
    fn switches_take_numbers_and_words() {
        let read =
            |text| options(&[("KVIKIO_AUTO_DIRECT_IO_READ", text)]).map(|options| options.direct_read());
        for text in ["1", "2", "true", " ON ", "Yes"] {
            assert!(read(text).unwrap(), "{text:?}");
        }
        for text in ["0", "false", "off", "NO"] {
            assert!(!read(text).unwrap(), "{text:?}");
        }
        for text in ["", "maybe"] {
            assert!(read(text).unwrap_err().message().starts_with("unknown config value"), "{text:?}");
        }
    }

    #[test]
    fn compat_mode_words() {
        let read = |text| options(&[("KVIKIO_COMPAT_MODE", text)]).map(|options| options.local_io());
        for text in ["on", "TRUE", "yes", "1"] {
            assert_eq!(read(text).unwrap(), LocalIo::Posix);
        }
        for text in ["off", "False", "no", "0"] {
            assert_eq!(read(text).unwrap(), LocalIo::CuFile);
        }
        assert_eq!(read("Auto").unwrap(), LocalIo::Auto);
        assert_eq!(read("fast").unwrap_err().message(), "Unknown compatibility mode: fast");
        assert_eq!(read("").unwrap_err().message(), "Unknown compatibility mode: ");
    }

    #[test]
    fn aliases_must_agree() {
        assert_eq!(options(&[("KVIKIO_NUM_THREADS", "3")]).unwrap().num_threads(), 3);
        assert_eq!(
            options(&[("KVIKIO_NTHREADS", "3"), ("KVIKIO_NUM_THREADS", "3")]).unwrap().num_threads(),
            3
        );
        let error = options(&[("KVIKIO_NTHREADS", "3"), ("KVIKIO_NUM_THREADS", "4")]).unwrap_err();
        assert!(error.message().contains("already been set by its alias KVIKIO_NTHREADS (3)"), "{error}");
    }

    #[test]
    fn status_codes() {
        let read = |text| options(&[("KVIKIO_HTTP_STATUS_CODES", text)]).map(|o| o.get(Key::HttpStatusCodes));
        assert_eq!(read("429, 500").unwrap(), Value::Codes(vec![429, 500]));
        assert_eq!(read("").unwrap(), Value::Codes(vec![429, 500, 502, 503, 504]));
        for text in ["42", "500,", "5000", "a"] {
            assert!(read(text).unwrap_err().message().contains("invalid format"), "{text:?}");
        }
    }
}
