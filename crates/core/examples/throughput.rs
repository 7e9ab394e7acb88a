//! How fast a file moves to and from memory: `cargo run --release --example throughput -- FILE [GiB]`.
//!
//! Makes FILE where it is absent (4 GiB, or as many as given), reads it from the page cache into host memory and, where
//! there is a GPU, into device memory, writes it back, and prints GB/s with the limits measured in the same run.

use std::path::Path;
use std::time::Instant;

use kvikio::{Engine, File, IoBufMut, Key, Options, Platform, Value};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: throughput FILE [GiB]")?;
    let path = Path::new(&path);
    let size = args.next().map_or(Ok(4.0), |text| text.parse::<f64>())? * f64::from(1 << 30);
    if !path.exists() {
        make(path, size as usize)?;
    }
    let len = std::fs::metadata(path)?.len() as usize;
    println!("{} bytes, {} CPUs", len, std::thread::available_parallelism()?);

    let engine = Engine::shared().clone();
    let chosen = engine.threads();
    let mut host = vec![0_u8; len];
    let mut plain = Vec::new();
    for _ in 0..4 {
        let began = Instant::now();
        std::os::unix::fs::FileExt::read_exact_at(&std::fs::File::open(path)?, &mut host, 0)?;
        plain.push(rate(len, began));
    }
    println!("host   pread, 1 thread              {:6.2} GB/s", median(plain));
    for threads in [1, 2, 4, 8, 16] {
        println!(
            "host   ours, {threads:2} threads             {:6.2} GB/s",
            read(path, &mut host, threads, None)?
        );
    }
    println!(
        "host   ours, nothing set ({chosen:2} threads) {:6.2} GB/s",
        read(path, &mut host, chosen, None)?
    );
    let Ok(mut device) = engine.device_buf(0, len) else {
        println!(
            "no GPU: {}",
            engine.device_buf(0, 1).map_or_else(|why| why.to_string(), |_| "out of memory".into())
        );
        return Ok(());
    };
    println!("device limit, pinned copy           {:6.2} GB/s", limit(&engine, &mut device)?);
    for threads in [1, 2, 4, 6, 8, 10, 12, 16] {
        println!(
            "device ours, {threads:2} threads             {:6.2} GB/s",
            read(path, &mut device, threads, None)?
        );
    }
    println!(
        "device ours, nothing set ({chosen:2} threads) {:6.2} GB/s",
        read(path, &mut device, chosen, None)?
    );
    for block in [1_u64 << 20, 2 << 20, 8 << 20] {
        let rate = read(path, &mut device, 8, Some(block))?;
        println!("device ours,  8 threads, {:2} MiB blocks {rate:6.2} GB/s", block >> 20);
    }
    let out = path.with_extension("out");
    for threads in [1, 2, 4, 8] {
        let engine = Engine::new(Platform::detect([]), threads);
        let mut rates = Vec::new();
        for _ in 0..3 {
            let file = File::options().write(true).create(true).truncate(true).engine(&engine).open(&out)?;
            let began = Instant::now();
            file.write_blocking(&device, 0)?;
            rates.push(rate(len, began));
        }
        println!("device to file, {threads:2} threads          {:6.2} GB/s", median(rates));
    }
    assert!(device.to_vec()? == std::fs::read(&out)?, "what was written is not what was read");
    assert!(host == std::fs::read(path)?, "what was read is not the file");
    std::fs::remove_file(&out)?;
    Ok(())
}

fn make(path: &Path, len: usize) -> std::io::Result<()> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    std::fs::write(path, bytes)
}

fn read<B: IoBufMut>(path: &Path, buf: &mut B, threads: usize, block: Option<u64>) -> kvikio::Result<f64> {
    let engine = Engine::new(Platform::detect([]), threads);
    let mut options = Options::default();
    if let Some(block) = block {
        options.set(Key::TaskSize, Value::Int(block))?;
        options.set(Key::BounceBufferSize, Value::Int(block))?;
    }
    let file = File::options().read(true).engine(&engine).options(options).open(path)?;
    let mut rates = Vec::new();
    for _ in 0..5 {
        let began = Instant::now();
        let read = file.read_blocking(buf, 0, true)?;
        rates.push(rate(read, began));
    }
    Ok(median(rates.split_off(1)))
}

fn limit(engine: &Engine, device: &mut kvikio::DeviceBuf) -> kvikio::Result<f64> {
    let pinned = engine.pinned(0, 256 << 20)?;
    let mut rates = Vec::new();
    for _ in 0..8 {
        let began = Instant::now();
        device.fill_from(&pinned)?;
        rates.push(rate(pinned.len(), began));
    }
    Ok(median(rates))
}

fn rate(bytes: usize, began: Instant) -> f64 {
    bytes as f64 / 1e9 / began.elapsed().as_secs_f64()
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}
