//! `kvikio demo`: a file read into GPU memory (host memory where there is no GPU) by the engine and by plain means,
//! every byte checked, the speeds side by side.

mod contender;
mod sample;
mod table;

use std::time::Instant;

use kvikio::{Engine, File, Options, Route};
use xxhash_rust::xxh3::Xxh3;

use crate::Context;
use crate::args::Demo;
use crate::demo::contender::{Contender, Memory};
use crate::demo::sample::Sample;
use crate::demo::table::{Row, Table};
use crate::output::{Failure, print};
use crate::progress::Progress;

/// Timed rounds; one that is not timed comes first.
const ROUNDS: usize = 3;
/// Bytes that are read before they are checked, at most: two or three such pieces are in memory at a time.
const PIECE: u64 = 1 << 30;

/// Reads, checks, compares.
///
/// # Errors
/// What stopped it, or the first contender whose bytes were not those of the file.
pub fn run(args: &Demo, context: &Context) -> Result<i32, Failure> {
    let options = Options::from_env()?;
    let engine = context.engine(&options);
    let memory = choose_memory(&engine, args.device)?;
    let sample = match &args.file {
        Some(path) => Sample::open(path)?,
        None => Sample::make(args.size)?,
    };
    let file = File::options().read(true).options(options).engine(&engine).open(sample.path())?;
    let piece = piece_size(&engine, memory, sample.len())?;
    let contenders = Contender::all(memory);
    let (digest, times) = race(&contenders, &sample, &file, &engine, piece)?;
    let table = describe(&sample, &file, &engine, memory, &contenders, digest, &times);
    print(&if args.json { table.to_json() } else { table.to_text() })?;
    Ok(0)
}

/// The GPU that was asked for, or the first, or host memory.
fn choose_memory(engine: &Engine, wanted: Option<u16>) -> Result<Memory, Failure> {
    let count = engine
        .platform()
        .cuda()
        .map_err(|why| why.to_string())
        .and_then(|cuda| cuda.start().map_err(|why| why.to_string()));
    match (count, wanted) {
        (Ok(count), Some(device)) if u32::from(device) >= count => {
            Err(Failure(format!("use device {device}: this machine has {count} (numbers start at 0)")))
        }
        (Ok(_), device) => Ok(Memory::Device(i32::from(device.unwrap_or(0)))),
        (Err(why), Some(device)) => Err(Failure(format!("use device {device}: {why}"))),
        (Err(_), None) => Ok(Memory::Host),
    }
}

/// How much of the file is read at once: what fits well into the memory that is free.
fn piece_size(engine: &Engine, memory: Memory, len: u64) -> Result<u64, Failure> {
    let mut piece = len.min(PIECE).min((free_memory() / 8).max(16 << 20));
    if let Memory::Device(device) = memory {
        // A GPU that others use may be nearly full.
        while let Err(error) = engine.device_buf(device, piece as usize) {
            if piece <= 16 << 20 {
                return Err(error.into());
            }
            piece /= 2;
        }
    }
    Ok(piece)
}

fn free_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib =
        line.and_then(|line| line.trim().split(' ').next()).and_then(|number| number.parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| kib.saturating_mul(1024))
}

/// All contenders in turn, round after round, so that a slow moment of the machine meets them all. Answers the digest
/// of the file and the seconds of every timed round by contender.
fn race(
    contenders: &[Contender],
    sample: &Sample,
    file: &File,
    engine: &Engine,
    piece: u64,
) -> Result<(u128, Vec<Vec<f64>>), Failure> {
    let progress = Progress::new(sample.len() * (contenders.len() * (ROUNDS + 1)) as u64);
    let mut times = vec![Vec::new(); contenders.len()];
    let mut expected = None;
    let mut done = 0;
    for round in 0..=ROUNDS {
        // The plain read comes last in the list and first in time: what it read is what the others are checked by,
        // and it brings the file into the page cache.
        for (number, contender) in contenders.iter().enumerate().rev() {
            let mut hash = Xxh3::new();
            let mut seconds = 0.0;
            let mut offset = 0;
            while offset < sample.len() {
                let len = piece.min(sample.len() - offset);
                let mut lane = contender.prepare(engine, sample, len as usize)?;
                let start = Instant::now();
                lane.read(file, offset)?;
                seconds += start.elapsed().as_secs_f64();
                hash.update(&lane.into_bytes()?);
                offset += len;
                progress.set(done + offset);
            }
            done += sample.len();
            let digest = hash.digest128();
            if *expected.get_or_insert(digest) != digest {
                return Err(Failure(format!(
                    "check {}: the bytes of \"{}\" are not those of a plain read",
                    sample.name(),
                    contender.name()
                )));
            }
            if round > 0 {
                times[number].push(seconds);
            }
        }
    }
    Ok((expected.unwrap_or_default(), times))
}

fn describe(
    sample: &Sample,
    file: &File,
    engine: &Engine,
    memory: Memory,
    contenders: &[Contender],
    digest: u128,
    times: &[Vec<f64>],
) -> Table {
    let device = match memory {
        Memory::Host => None,
        Memory::Device(ordinal) => Some((ordinal, device_name(engine, ordinal))),
    };
    let (route, reason) = match memory {
        Memory::Host => (Route::Host, "read straight into host memory"),
        Memory::Device(_) => (file.route(), file.route_reason()),
    };
    let rows = contenders.iter().zip(times).map(|(contender, times)| Row {
        name: contender.name(),
        is_baseline: contender.is_baseline(memory),
        seconds: median(times),
    });
    Table {
        file: sample.name(),
        is_temporary: sample.is_temporary(),
        bytes: sample.len(),
        device,
        route,
        reason: reason.to_owned(),
        threads: engine.threads(),
        digest,
        rows: rows.collect(),
    }
}

fn device_name(engine: &Engine, ordinal: i32) -> String {
    let name = engine.platform().cuda().ok().and_then(|cuda| cuda.table().device_name(ordinal).ok());
    name.unwrap_or_else(|| "unnamed".to_owned())
}

fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_one() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[]), 0.0);
    }

    #[test]
    fn one_wrong_byte_is_found_in_any_piece() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let mut content = vec![1; 1000];
        std::fs::write(path("right"), &content).unwrap();
        content[777] = 2;
        std::fs::write(path("wrong"), &content).unwrap();
        let engine = Context::default().engine(&Options::default());
        let run = |name: &str, piece| {
            let file = File::options().read(true).engine(&engine).open(path(name)).unwrap();
            let sample = Sample::open(&path("right")).unwrap();
            race(&Contender::all(Memory::Host), &sample, &file, &engine, piece)
        };
        for piece in [1000, 300, 1] {
            assert!(run("right", piece).is_ok());
            let Failure(text) = run("wrong", piece).unwrap_err();
            assert!(text.contains("are not those of a plain read"), "{text}");
        }
    }

    #[test]
    fn free_memory_is_known() {
        assert!(free_memory() > 0);
    }
}
