//! How fast a remote object moves to memory: `cargo run --release --example remote_throughput -- URL [--bytes N]
//! [--loops N] [--in-flight N] [--task N] [--runs N] [--floor N] [--device]`.
//!
//! Reads the object (or its first N bytes) again and again and prints GB/s and the client's CPU seconds per GB.
//! `--floor N` reads the same bytes by N blocking sockets with a bare `recv` into the destination: what any client can
//! reach at best on this machine.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use kvikio::{Engine, Environment, IoBufMut, Key, Options, Remote, Value};

#[derive(Debug, Default)]
struct Args {
    url: String,
    bytes: Option<u64>,
    floor: usize,
    runs: usize,
    device: bool,
    options: Options,
}

fn args() -> Result<Args, Box<dyn std::error::Error>> {
    let mut args = Args { runs: 8, ..Args::default() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || words.next().unwrap_or_default().parse::<u64>();
        match word.as_str() {
            "--bytes" => args.bytes = Some(number()?),
            "--floor" => args.floor = number()? as usize,
            "--runs" => args.runs = number()? as usize,
            "--loops" => args.options.set(Key::NumThreads, Value::Int(number()?))?,
            "--in-flight" => args.options.set(Key::RemoteIoMaxConcurrentRequests, Value::Int(number()?))?,
            "--task" => args.options.set(Key::TaskSize, Value::Int(number()?))?,
            "--device" => args.device = true,
            _ => args.url = word,
        }
    }
    Ok(args)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = args()?;
    let engine = Engine::shared();
    let remote = Remote::new(engine, &args.options, &Environment::process());
    let file = remote.open_http(&args.url, None, args.options.clone())?;
    let len = args.bytes.unwrap_or_else(|| file.size()).min(file.size()) as usize;
    println!("{len} bytes, {} CPUs", std::thread::available_parallelism()?);
    if args.floor > 0 {
        let mut host = vec![0_u8; len];
        return measure("floor", args.runs, len, || floor(&args.url, &mut host, args.floor));
    }
    if args.device {
        let mut buf = engine.device_buf(0, len)?;
        return measure("device", args.runs, len, || ours(&file, &mut buf));
    }
    let mut host = vec![0_u8; len];
    measure("host", args.runs, len, || ours(&file, &mut host))?;
    println!("{:?}", remote.statistics());
    Ok(())
}

fn ours<B: IoBufMut>(file: &kvikio::RemoteFile, buf: &mut B) -> Result<(), Box<dyn std::error::Error>> {
    file.read_blocking(buf, 0, true)?;
    Ok(())
}

fn measure(
    what: &str,
    runs: usize,
    len: usize,
    mut run: impl FnMut() -> Result<(), Box<dyn std::error::Error>>,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut rates = Vec::new();
    run()?;
    let cpu = cpu_seconds()?;
    for _ in 0..runs {
        let began = Instant::now();
        run()?;
        rates.push(len as f64 / 1e9 / began.elapsed().as_secs_f64());
    }
    let cpu = (cpu_seconds()? - cpu) / (len as f64 / 1e9) / runs as f64;
    rates.sort_by(f64::total_cmp);
    let median = rates.get(rates.len() / 2).copied().unwrap_or_default();
    let best = rates.last().copied().unwrap_or_default();
    println!("{what:8} median {median:8.4} GB/s, best {best:8.4} GB/s, client CPU {cpu:5.3} s/GB");
    Ok(())
}

/// User and system time of this process.
fn cpu_seconds() -> Result<f64, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: f64 = [11, 12]
        .iter()
        .map(|at| fields.get(*at).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0))
        .sum();
    Ok(ticks / 100.0)
}

/// Bare `recv` of ranges of 4 MiB into the destination, by `count` blocking connections.
fn floor(url: &str, host: &mut [u8], count: usize) -> Result<(), Box<dyn std::error::Error>> {
    let rest = url.strip_prefix("http://").ok_or("the floor needs http")?;
    let (authority, path) = rest.split_once('/').ok_or("no path")?;
    let next = std::sync::Mutex::new(host.chunks_mut(4 << 20).enumerate());
    std::thread::scope(|scope| {
        let worker = || -> std::io::Result<()> {
            let mut stream = TcpStream::connect(authority)?;
            stream.set_nodelay(true)?;
            loop {
                let Some((number, chunk)) = next.lock().ok().and_then(|mut next| next.next()) else {
                    return Ok(());
                };
                let first = number * (4 << 20);
                let last = first + chunk.len() - 1;
                let request = format!(
                    "GET /{path} HTTP/1.1\r\nHost: {authority}\r\nRange: bytes={first}-{last}\r\n\r\n"
                );
                stream.write_all(request.as_bytes())?;
                let mut head = Vec::new();
                let mut byte = [0; 4096];
                let body = loop {
                    let got = stream.read(&mut byte)?;
                    head.extend_from_slice(byte.get(..got).unwrap_or_default());
                    if let Some(at) = head.windows(4).position(|four| four == b"\r\n\r\n") {
                        break head.split_off(at + 4);
                    }
                };
                let (start, tail) = chunk.split_at_mut(body.len());
                start.copy_from_slice(&body);
                stream.read_exact(tail)?;
            }
        };
        let workers: Vec<_> = (0..count).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().map_err(|_| "a worker panicked")?.map_err(Into::into))
    })
}
