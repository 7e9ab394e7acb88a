//! Bytes and rates as people read and write them.

const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/// `1.5 GiB`; whole numbers without a fraction.
pub fn bytes(count: u64) -> String {
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let text = format!("{value:.1}");
    format!("{} {}", text.strip_suffix(".0").unwrap_or(&text), UNITS[unit])
}

/// Billions of bytes a second; `None` where no time passed or nothing was moved.
pub fn gigabytes_per_second(count: u64, seconds: f64) -> Option<f64> {
    (count > 0 && seconds > 0.0).then(|| count as f64 / seconds / 1e9)
}

/// `12.3 GB/s`, `0.04 GB/s`, or `-`.
pub fn rate(count: u64, seconds: f64) -> String {
    match gigabytes_per_second(count, seconds) {
        Some(rate) if rate < 1.0 => format!("{rate:.2} GB/s"),
        Some(rate) => format!("{rate:.1} GB/s"),
        None => "-".to_owned(),
    }
}

/// A number of bytes with an optional unit: `4096`, `3MiB`, `1.5 GiB`, `2G` (binary) or `2GB` (decimal).
///
/// # Errors
/// What is wrong with the text.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let wrong = || "expected a size such as 4096, 64KiB, 3MiB or 1.5GiB".to_owned();
    let unit = unit.trim().to_ascii_lowercase();
    let (letter, base): (&str, u64) = match (unit.strip_suffix("ib"), unit.strip_suffix('b')) {
        (Some(letter), _) => (letter, 1024),
        (None, Some("")) => ("", 1),
        (None, Some(letter)) => (letter, 1000),
        (None, None) => (unit.as_str(), 1024),
    };
    let power = match letter {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return Err(wrong()),
    };
    let factor = base.pow(power);
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).filter(|size| *size <= i64::MAX as u64).ok_or_else(wrong);
    }
    let value = number.parse::<f64>().map_err(|_| wrong())? * factor as f64;
    if value.is_finite() && value <= i64::MAX as f64 { Ok(value.round() as u64) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_short_and_exact_where_they_can_be() {
        for (count, text) in [
            (0, "0 B"),
            (1, "1 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (4 << 20, "4 MiB"),
            ((1 << 30) - 1, "1 GiB"),
            (3 << 29, "1.5 GiB"),
            (u64::MAX, "16384 PiB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }

    #[test]
    fn rates_need_time_and_bytes() {
        assert_eq!(rate(12_300_000_000, 1.0), "12.3 GB/s");
        assert_eq!(rate(40_000_000, 1.0), "0.04 GB/s");
        assert_eq!(rate(0, 1.0), "-");
        assert_eq!(rate(1, 0.0), "-");
    }

    #[test]
    fn sizes_are_read_back() {
        for (text, size) in [
            ("0", 0),
            ("4096", 4096),
            ("7B", 7),
            ("3MiB", 3 << 20),
            ("3m", 3 << 20),
            ("1.5 GiB", 3 << 29),
            ("2GB", 2_000_000_000),
            (" 64kib ", 64 << 10),
        ] {
            assert_eq!(parse_bytes(text), Ok(size), "{text}");
        }
        for text in ["", "GiB", "-1", "1 XiB", "1.2.3", "99999999TiB", "inf", "ib"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }
}
