//! `kvikio copy URL FILE`: a remote object fetched by many requests at once, and continued where it was interrupted.

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

use kvikio::{File, Key, Options, RemoteFile, Transfer, Value};

use crate::Context;
use crate::args::Copy;
use crate::destination::{destination, refuse_address, sync_folder};
use crate::output::{Failure, print};
use crate::part::{Found, Object, Part};
use crate::progress::Progress;
use crate::remote::{open, remote};
use crate::units::{bytes, rate};

/// Bytes that are written by one request,
const PIECE: u64 = 16 << 20;
/// of which so many are fetched at once,
const PIECES: usize = 8;
/// each by requests of so many bytes where the user set nothing.
const TASK: u64 = 4 << 20;
/// How often what has come is made sure of.
const OFTEN: Duration = Duration::from_secs(1);

/// Copies.
///
/// # Errors
/// What stopped it; nothing has then appeared at the destination.
pub fn run(args: &Copy, context: &Context) -> Result<i32, Failure> {
    refuse_address(&args.to)?;
    let url = args.from.to_str().ok_or_else(|| Failure("copy: the address is not UTF-8".to_owned()))?;
    let mut options = Options::from_env()?;
    if !options.is_set(Key::TaskSize) {
        options.set(Key::TaskSize, Value::Int(TASK))?;
    }
    let engine = context.engine(&options);
    let source = open(&remote(&engine, &options), url, options.clone())?;
    // No file of this machine can be the source.
    let (to, folder) = destination(Path::new(&name_of(url)), &args.to, (u64::MAX, u64::MAX))?;
    let start = Instant::now();
    let (mut part, found) = Part::open(&to, object(&source))?;
    let earlier = part.done();
    if found == Found::Other {
        print("starting anew: what an earlier run left is not of this version of the object\n")?;
    }
    let target = File::options().write(true).options(options).engine(&engine).open(part.path())?;
    if let Err(failure) = fetch(&source, &target, &mut part) {
        return Err(kept(failure, part));
    }
    if args.sync {
        target.sync()?;
    }
    drop(target);
    part.finish(&to)?;
    if args.sync {
        sync_folder(&folder)?;
    }
    report(&source, &to, earlier, start.elapsed().as_secs_f64())?;
    Ok(0)
}

fn object(source: &RemoteFile) -> Object {
    let address = source.address();
    let address = address.split('?').next().unwrap_or_default().to_owned();
    // Where the server sends no parts, there is nothing to go on from.
    let version = source.version().filter(|_| source.has_ranges() == Some(true));
    Object { address, size: source.size(), version }
}

/// The failure, with what to do about it where something was kept.
fn kept(failure: Failure, part: Part) -> Failure {
    let done = part.done();
    match part.keep() {
        Some(path) => Failure(format!(
            "{failure}; {} are kept in {}: the same command goes on from there",
            bytes(done),
            path.display()
        )),
        None => failure,
    }
}

fn report(source: &RemoteFile, to: &Path, earlier: u64, seconds: f64) -> Result<(), Failure> {
    let fresh = source.size() - earlier;
    let before = match earlier {
        0 => String::new(),
        _ => format!(", {} of them by an earlier run", bytes(earlier)),
    };
    print(&format!(
        "copied {} to {} in {seconds:.2} s ({}){before}\n",
        bytes(source.size()),
        to.display(),
        rate(fresh, seconds)
    ))
}

/// A piece that is being fetched.
struct Reading {
    end: u64,
    transfer: Transfer<Vec<u8>>,
}

/// Fetches what is missing: pieces side by side, written in their order.
fn fetch(source: &RemoteFile, target: &File, part: &mut Part) -> Result<(), Failure> {
    if source.has_ranges() == Some(false) {
        return fetch_whole(source, target, part);
    }
    let progress = Progress::new(source.size());
    let mut readings = VecDeque::new();
    let mut spare: Vec<Vec<u8>> = Vec::new();
    let mut next = part.done();
    let mut remembered = Remembered { done: next, at: Instant::now() };
    loop {
        while readings.len() < PIECES && next < source.size() {
            let len = (source.size() - next).min(PIECE);
            let mut buf = spare.pop().unwrap_or_default();
            // Not more than a piece, so it fits.
            buf.resize(len as usize, 0);
            readings.push_back(Reading { end: next + len, transfer: source.read_exact_at(buf, next) });
            next += len;
        }
        let Some(Reading { end, transfer }) = readings.pop_front() else { return Ok(()) };
        while !transfer.wait_for(OFTEN) {
            remembered.now(part)?;
        }
        let (moved, full) = transfer.wait();
        moved?;
        // While this waits for the disk, the pieces behind it keep coming.
        let (moved, free) = target.write_at(full, part.done()).wait();
        moved?;
        part.advance(end);
        progress.set(end);
        spare.push(free);
        if remembered.at.elapsed() > OFTEN {
            remembered.now(part)?;
        }
    }
}

/// How much was made sure of, and when.
struct Remembered {
    done: u64,
    at: Instant,
}

impl Remembered {
    fn now(&mut self, part: &Part) -> Result<(), Failure> {
        if self.done != part.done() {
            part.remember()?;
        }
        *self = Self { done: part.done(), at: Instant::now() };
        Ok(())
    }
}

/// From a server that sends no parts: by one request.
fn fetch_whole(source: &RemoteFile, target: &File, part: &mut Part) -> Result<(), Failure> {
    let size = source.size();
    let len = usize::try_from(size).ok();
    let mut buf = Vec::new();
    if len.is_none_or(|len| buf.try_reserve_exact(len).is_err()) {
        let words = "the server sends the object only as a whole, and it does not fit into memory";
        return Err(Failure(format!("copy {}: {words}", source.address())));
    }
    buf.resize(len.unwrap_or(0), 0);
    let options = source.settings().clone().with(Key::TaskSize, Value::Int(size.max(1)))?;
    let (moved, full) = source.with_options(options).read_exact_at(buf, 0).wait();
    moved?;
    target.write_at(full, 0).wait().0?;
    part.advance(size);
    Ok(())
}

/// What a copy into a folder is called: the last name of the address.
fn name_of(url: &str) -> String {
    let is_s3 = url.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("s3://"));
    let path = if is_s3 { url } else { url.split(['?', '#']).next().unwrap_or(url) };
    let rest = path.split_once("://").map_or(path, |(_, rest)| rest);
    let last = rest.split_once('/').and_then(|(_, path)| path.rsplit('/').next()).unwrap_or_default();
    let name = if is_s3 { last.to_owned() } else { decoded(last) };
    // No name that leads elsewhere; an empty one is refused by whoever needs one.
    if name.contains(['/', '\0']) || name == "." || name == ".." { String::new() } else { name }
}

/// `%xx` as the byte that it stands for.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| behind.get(..2)).flatten();
        let escaped = escaped.and_then(|digits| std::str::from_utf8(digits).ok());
        match escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = behind.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_in_a_folder_has_the_last_name_of_the_address() {
        for (url, name) in [
            ("http://host/a/b.bin", "b.bin"),
            ("https://host/a/b%20c.bin?X-Amz-Signature=x/y#z", "b c.bin"),
            ("s3://bucket/a/b?c#d%20", "b?c#d%20"),
            ("http://host", ""),
            ("http://host/", ""),
            ("http://host/..", ""),
            ("http://host/a%2fb", ""),
            ("http://host/%2e%2e", ""),
            ("http://host/%zz%", "%zz%"),
        ] {
            assert_eq!(name_of(url), name, "{url}");
        }
    }
}
