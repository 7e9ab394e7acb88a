//! The result of the demo, for people and for programs.

use std::fmt::Write;

use kvikio::Route;
use serde_json::{Value, json};

use crate::units::{bytes, gigabytes_per_second, rate};

/// One way of reading and its time.
#[derive(Debug)]
pub struct Row {
    pub name: String,
    /// The one that the ratios are by.
    pub is_baseline: bool,
    /// The median of the timed rounds.
    pub seconds: f64,
}

/// What was read, how, and how fast.
#[derive(Debug)]
pub struct Table {
    pub file: String,
    pub is_temporary: bool,
    pub bytes: u64,
    /// Number and name of the GPU; `None` for host memory.
    pub device: Option<(i32, String)>,
    pub route: Route,
    pub reason: String,
    pub threads: usize,
    pub digest: u128,
    pub rows: Vec<Row>,
}

impl Table {
    /// How many times as fast as the baseline.
    fn ratio(&self, row: &Row) -> Option<f64> {
        let baseline = self.rows.iter().find(|row| row.is_baseline)?;
        (self.bytes > 0 && row.seconds > 0.0).then(|| baseline.seconds / row.seconds)
    }

    fn route(&self) -> &'static str {
        match self.route {
            Route::Direct => "direct",
            Route::Host => "host",
            Route::Staged => "staged",
        }
    }

    /// A small table.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let memory = match &self.device {
            Some((number, name)) => format!("GPU {number} ({name})"),
            None => "host memory (there is no GPU; `kvikio doctor` says why)".to_owned(),
        };
        // Writing to a string does not fail.
        let _ = writeln!(text, "file     {}, {}", self.file, bytes(self.bytes));
        let _ = writeln!(text, "memory   {memory}");
        let _ = writeln!(text, "route    {}: {}", self.route(), self.reason);
        let _ = writeln!(text, "threads  {} for kvikio, 1 for plain reads\n", self.threads);
        let width = self.rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
        let _ = writeln!(text, "{:width$}  {:>9}  {:>10}  {:>6}", "", "seconds", "speed", "ratio");
        for row in &self.rows {
            let ratio = self.ratio(row).map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
            let speed = rate(self.bytes, row.seconds);
            let _ = writeln!(text, "{:width$}  {:>9.4}  {speed:>10}  {ratio:>6}", row.name, row.seconds);
        }
        let _ = writeln!(
            text,
            "\nEach figure is the median of 3 runs after one warm-up, with the file in the page cache (as far as it fits)."
        );
        let _ = writeln!(text, "Every byte of every run was checked against a plain read: all equal.");
        text
    }

    /// One JSON object; `docs/cli.md` describes it.
    pub fn to_json(&self) -> String {
        let row = |row: &Row| {
            json!({
                "name": row.name,
                "seconds": row.seconds,
                "gb_per_s": gigabytes_per_second(self.bytes, row.seconds),
                "ratio": self.ratio(row),
                "baseline": row.is_baseline,
            })
        };
        let device = self.device.as_ref().map(|(number, name)| json!({"number": number, "name": name}));
        let object = json!({
            "kvikio": env!("CARGO_PKG_VERSION"),
            "file": if self.is_temporary { Value::Null } else { self.file.clone().into() },
            "bytes": self.bytes,
            "device": device,
            "route": self.route(),
            "route_reason": self.reason,
            "threads": self.threads,
            "verified": true,
            "xxh3_128": format!("{:032x}", self.digest),
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
        });
        format!("{object:#}\n")
    }
}
