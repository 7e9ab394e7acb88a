//! `kvikio info`: what a server has at an address.

use kvikio::{Options, RemoteFile, Statistics};
use serde_json::json;

use crate::Context;
use crate::args::Info;
use crate::output::{Failure, print};
use crate::remote::{open, remote};
use crate::units::bytes;

/// Device memory is reached by no other way.
const ROUTE: &str = "staged";
const ROUTE_REASON: &str =
    "host memory is filled as bytes leave the socket, device memory through page-locked host memory";

/// Asks, and prints the answer.
///
/// # Errors
/// What the address or the server is the matter with.
pub fn run(args: &Info, context: &Context) -> Result<i32, Failure> {
    let options = Options::from_env()?;
    let remote = remote(&context.engine(&options), &options);
    let file = open(&remote, &args.url, options)?;
    let text = if args.json { object(&file, remote.statistics()) } else { lines(&file, remote.statistics()) };
    print(&text)?;
    Ok(0)
}

fn object(file: &RemoteFile, did: Statistics) -> String {
    let object = json!({
        "kvikio": env!("CARGO_PKG_VERSION"),
        "address": file.address(),
        "type": file.endpoint_type().label(),
        "bytes": file.size(),
        "version": file.version(),
        "ranges": file.has_ranges(),
        "server": file.server(),
        "route": ROUTE,
        "route_reason": ROUTE_REASON,
        "requests": did.requests,
        "redirects": did.redirects,
        "retries": did.retries,
    });
    format!("{object:#}\n")
}

fn lines(file: &RemoteFile, did: Statistics) -> String {
    let version =
        file.version().unwrap_or_else(|| "not told: a change between reads cannot be noticed".to_owned());
    let ranges = match file.has_ranges() {
        Some(true) => "yes",
        _ => "no: every request fetches the whole object",
    };
    let count = |number: u64, word: &str| format!("{number} {word}{}", if number == 1 { "" } else { "s" });
    let rows = [
        ("address", file.address()),
        ("type", file.endpoint_type().label().to_owned()),
        ("size", format!("{} bytes ({})", file.size(), bytes(file.size()))),
        ("version", version),
        ("ranges", ranges.to_owned()),
        ("server", file.server().unwrap_or_default().to_owned()),
        ("route", format!("{ROUTE}: {ROUTE_REASON}")),
        ("asked by", format!("{}, {}", count(did.requests, "request"), count(did.redirects, "redirect"))),
    ];
    rows.iter().map(|(name, value)| format!("{name:<9} {value}\n")).collect()
}
