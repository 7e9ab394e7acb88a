//! cuFile (GPUDirect Storage): the library, its driver, and what they need of the system.

use kvikio::sys::cufile::{Properties, Storage};
use kvikio::{CuFileDriver, Platform};
use serde_json::Value;

use crate::doctor::report::{Section, listed};
use crate::doctor::storage::loaded_from;

/// The name of the section.
pub const NAME: &str = "cufile";

const STORAGE: [Storage; 14] = [
    Storage::Lustre,
    Storage::Weka,
    Storage::Nfs,
    Storage::Gpfs,
    Storage::Nvme,
    Storage::NvmeOf,
    Storage::Scsi,
    Storage::ScaleFlux,
    Storage::NvMesh,
    Storage::BeeGfs,
    Storage::NvmeP2p,
    Storage::ScateFs,
    Storage::VirtioFs,
    Storage::PanFs,
];

/// What there is of cuFile. It is not touched where the user has ruled it out (`posix_only`), and its driver is opened
/// only where a GPU is.
pub fn examine(platform: &Platform, has_gpu: bool, posix_only: bool) -> Section {
    let mut section = Section::new(NAME);
    section.fact("nvidia_fs_module", platform.has_nvidia_fs());
    section.fact("udev", platform.has_udev());
    section.fact("wsl", platform.is_wsl());
    for key in ["library", "version", "driver"] {
        section.fact(key, Value::Null);
    }
    if posix_only {
        section.note("compat_mode is ON: cuFile is not used, so it was not looked for", "");
        return section;
    }
    if !library(&mut section, platform) {
        return section;
    }
    if platform.is_wsl() {
        section.note("this is WSL, where cuFile does not work", "nothing to do: the staged route serves");
    }
    if !platform.has_udev() {
        section.note(
            "/run/udev is not there, and cuFile finds no disk without it",
            "in a container, mount it: `-v /run/udev:/run/udev:ro`",
        );
    }
    match platform.has_nvidia_fs() {
        true => section.ok("the nvidia-fs kernel module is loaded"),
        false => section.note(
            "the nvidia-fs kernel module is not loaded: there is no direct path except NVMe by peer-to-peer, and cuFile \
             would run in its own compatibility mode, which is slower than the staged route",
            "install NVIDIA's package nvidia-gds on the host and run `modprobe nvidia-fs`, where GPUDirect Storage is wanted",
        ),
    }
    if !has_gpu {
        section.note("its driver was not opened: there is no GPU", "");
    } else if !platform.is_wsl() {
        driver(&mut section, platform.cufile_driver());
    }
    section
}

/// True where the library loads.
fn library(section: &mut Section, platform: &Platform) -> bool {
    match platform.cufile() {
        Ok(table) => {
            let library =
                loaded_from("libcufile.so").unwrap_or_else(|| table.library().display().to_string());
            section.fact("library", library.clone());
            let version = match table.version() {
                // The least that the call's absence means.
                Ok(1070) => "1.7 or older".to_owned(),
                Ok(number) => format!("{}.{}.{}", number / 1000, number % 1000 / 10, number % 10),
                Err(status) => format!("of unknown version ({status})"),
            };
            section.ok(format!("cuFile {version} ({library})"));
            section.fact("version", version);
            true
        }
        Err(why) => {
            section.note(
                format!("no cuFile: {why}"),
                "needed only for GPUDirect Storage: install CUDA's libcufile, or set KVIKIO_CUFILE_PATH to it",
            );
            false
        }
    }
}

fn driver(section: &mut Section, opened: kvikio::Result<&CuFileDriver>) {
    let properties = match opened {
        Ok(driver) => driver.properties,
        Err(error) => {
            section.note(
                format!("cuFile's driver does not open: {}", error.message()),
                "cufile.log (in the current folder, or where CUFILE_ENV_PATH_JSON's file says) tells why",
            );
            return;
        }
    };
    let direct = supported(&properties);
    let version = match properties.has_nvidia_fs() {
        true => format!("nvidia-fs {}.{}", properties.nvfs_major, properties.nvfs_minor),
        false => "without nvidia-fs".to_owned(),
    };
    let compat = if properties.allows_compat_mode() { "allowed" } else { "not allowed" };
    section.ok(format!(
        "cuFile's driver is open: {version}, direct path for {}, its own compatibility mode {compat}",
        listed(&direct)
    ));
    section.fact(
        "driver",
        serde_json::json!({
            "nvidia_fs": [properties.nvfs_major, properties.nvfs_minor],
            "direct_path_for": direct,
            "compat_mode_allowed": properties.allows_compat_mode(),
            "poll_mode": properties.uses_poll_mode(),
            "max_direct_io_kib": properties.max_direct_io_size_kib,
            "max_device_cache_kib": properties.max_device_cache_size_kib,
            "max_pinned_memory_kib": properties.max_pinned_memory_size_kib,
        }),
    );
}

fn supported(properties: &Properties) -> Vec<String> {
    STORAGE.iter().filter(|kind| properties.supports(**kind)).map(|kind| format!("{kind:?}")).collect()
}
