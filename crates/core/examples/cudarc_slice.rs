//! A file into a `cudarc` slice and back: `cargo run --features cudarc --example cudarc_slice -- FILE`.

use cudarc::driver::CudaContext;
use kvikio::File;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: cudarc_slice FILE")?;
    let stream = CudaContext::new(0)?.new_stream()?;
    let file = File::open(&path)?;
    let len = usize::try_from(file.len()?)?;

    let (result, slice) = file.read_exact_at(stream.alloc_zeros::<u8>(len)?, 0).wait();
    println!("{} bytes in device memory ({})", result?, file.route_reason());
    let on_host = stream.clone_dtoh(&slice)?;
    assert!(on_host == std::fs::read(&path)?, "the slice holds other bytes than the file");

    let copy = std::path::Path::new(&path).with_extension("copy");
    let (result, _slice) = File::create(&copy)?.write_at(slice, 0).wait();
    result?;
    assert!(std::fs::read(&copy)? == on_host, "the copy holds other bytes than the slice");
    std::fs::remove_file(&copy)?;
    println!("written back and compared: the same");
    Ok(())
}
