//! The CUDA driver and the devices it shows.

use kvikio::Platform;
use kvikio::sys::cuda::{Table, Unavailable};
use kvikio::sys::dylib::LoadError;
use serde_json::{Value, json};

use crate::doctor::report::Section;
use crate::doctor::storage::loaded_from;
use crate::units::bytes;

/// The names of the two sections.
pub const NAMES: [&str; 2] = ["driver", "devices"];

/// The driver's section, the devices', and whether there is a GPU to work with.
pub fn examine(platform: &Platform) -> (Section, Section, bool) {
    let mut driver = Section::new(NAMES[0]);
    let mut devices = Section::new(NAMES[1]);
    driver.fact("kernel_version", kernel_version(platform));
    driver.fact("library", Value::Null);
    driver.fact("cuda_version", Value::Null);
    devices.fact("list", Vec::<Value>::new());
    let count = match platform.cuda() {
        Err(why) => {
            absent(&mut driver, &why);
            0
        }
        Ok(cuda) => {
            let table = cuda.table();
            let library = loaded_from("libcuda.so").unwrap_or_else(|| table.library().display().to_string());
            let version = table.driver_version().ok().map(cuda_version);
            driver.fact("library", library.clone());
            driver.fact("cuda_version", version.clone());
            match cuda.start() {
                Ok(count) => {
                    let version = version.unwrap_or_else(|| "of unknown version".to_owned());
                    driver.ok(format!("CUDA {version} ({library})"));
                    count
                }
                Err(why) => {
                    unusable(&mut driver, &why);
                    0
                }
            }
        }
    };
    driver.fact("usable", count > 0);
    if let (Ok(cuda), true) = (platform.cuda(), count > 0) {
        let list = (0..i32::try_from(count).unwrap_or(i32::MAX))
            .map(|ordinal| device(cuda.table(), ordinal, &mut devices));
        let list: Vec<Value> = list.collect();
        devices.fact("list", list);
    }
    (driver, devices, count > 0)
}

fn absent(section: &mut Section, why: &LoadError) {
    match why {
        LoadError::NotFound { .. } => section.note(
            format!("no CUDA driver: {why}"),
            "for GPU memory install NVIDIA's driver; in a container, start it with GPU access (`--gpus all`)",
        ),
        LoadError::MissingSymbol { .. } => {
            section
                .problem(format!("the CUDA driver cannot be used: {why}"), "install a newer NVIDIA driver");
        }
    }
}

fn unusable(section: &mut Section, why: &Unavailable) {
    let text = why.to_string();
    match why {
        Unavailable::Library(_) => section.problem(text, "install a newer NVIDIA driver"),
        Unavailable::Stub { .. } => section.note(
            text,
            "take the toolkit's `stubs` folder off LD_LIBRARY_PATH, or install NVIDIA's driver where it is missing",
        ),
        Unavailable::NoDevice => {
            section.note(text, "none is built in or passed to the container, or CUDA_VISIBLE_DEVICES hides it");
        }
        Unavailable::Init { .. } => section.problem(
            text,
            "see whether `nvidia-smi` works; after an update of the driver the machine wants a restart",
        ),
    }
}

/// `13.0` for 13000.
fn cuda_version(number: i32) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}

/// The version of the kernel's half of the driver.
fn kernel_version(platform: &Platform) -> Value {
    let text = std::fs::read_to_string(platform.at("/sys/module/nvidia/version"));
    text.map_or(Value::Null, |text| text.trim().into())
}

fn device(table: &Table, ordinal: i32, section: &mut Section) -> Value {
    // `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR` and `_MINOR`
    const CAPABILITY: [i32; 2] = [75, 76];
    let name = table.device_name(ordinal);
    let memory = table.device_total_memory(ordinal);
    let pci = table.device_pci_bus_id(ordinal).ok();
    let capability = CAPABILITY.map(|attribute| table.device_attribute(ordinal, attribute).ok());
    let capability = match capability {
        [Some(major), Some(minor)] => Some(format!("{major}.{minor}")),
        _ => None,
    };
    match (&name, &memory) {
        (Ok(name), Ok(memory)) => {
            let unknown = || "unknown".to_owned();
            section.ok(format!(
                "GPU {ordinal}: {name}, {}, at {}, compute capability {}",
                bytes(*memory as u64),
                pci.clone().unwrap_or_else(unknown),
                capability.clone().unwrap_or_else(unknown)
            ));
        }
        (Err(status), _) | (_, Err(status)) => section.problem(
            format!("GPU {ordinal} does not answer: {}", table.describe(*status)),
            "look at the system's log (`dmesg`)",
        ),
    }
    json!({
        "number": ordinal,
        "name": name.ok(),
        "memory_bytes": memory.ok(),
        "pci_bus_id": pci,
        "compute_capability": capability,
    })
}
