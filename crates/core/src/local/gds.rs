//! Which route a file's device transfers take, decided once per file by named rules, each with its reason.

use std::path::Path;

use kvikio_sys::cufile::Storage;

use crate::error::{Error, ErrorKind, Result};
use crate::local::cufile::Registration;
use crate::local::fd::OpenFile;
use crate::options::LocalIo;
use crate::platform::Platform;

/// What was decided for a file.
#[derive(Debug)]
pub enum Decision {
    /// cuFile moves the bytes.
    CuFile(Registration, String),
    /// We do.
    Ours(String),
}

/// Decides for `file`.
///
/// # Errors
/// Only with [`LocalIo::CuFile`]: what keeps cuFile from serving the file.
pub fn decide(platform: &Platform, file: &OpenFile, local_io: LocalIo) -> Result<Decision> {
    match local_io {
        LocalIo::Posix => Ok(Decision::Ours("compat_mode is ON: cuFile is not used".to_owned())),
        LocalIo::CuFile => {
            let why = "compat_mode is OFF: cuFile is used for device memory".to_owned();
            Ok(Decision::CuFile(register(platform, file)?, why))
        }
        LocalIo::Auto => Ok(match is_worthwhile(platform, file) {
            Err(why) => Decision::Ours(why),
            Ok(why) => match register(platform, file) {
                Ok(registration) => Decision::CuFile(registration, why),
                Err(error) => Decision::Ours(error.message().to_owned()),
            },
        }),
    }
}

/// Whether the direct path would really be in use for `file`: a cuFile that runs in its own compatibility mode is
/// slower than our route. Answers the reason either way. Asks cheap questions first and opens cuFile last.
fn is_worthwhile(platform: &Platform, file: &OpenFile) -> std::result::Result<String, String> {
    let cuda = platform.cuda().map_err(|why| format!("no CUDA driver: {why}"))?;
    if platform.is_wsl() {
        return Err("cuFile does not work under WSL".to_owned());
    }
    if !platform.has_udev() {
        return Err("/run/udev is not there, and cuFile finds no disk without it (in a container, mount it read-only)"
            .to_owned());
    }
    file.direct().map_err(|why| format!("no direct I/O on this file: {why}"))?;
    let storage = storage(platform, file);
    if storage.is_empty() {
        return Err("cuFile has no direct path for this file system or device".to_owned());
    }
    if !platform.has_nvidia_fs() && !storage.contains(&Storage::NvmeP2p) {
        return Err("the nvidia-fs driver is not loaded: cuFile would run in its own compatibility mode, \
                    which is slower than the staged route"
            .to_owned());
    }
    cuda.start().map_err(|why| why.to_string())?;
    let driver = platform.cufile_driver().map_err(|error| error.message().to_owned())?;
    // The module may be the host's, without the devices through which this process would speak to it.
    let has_nvidia_fs = driver.properties.has_nvidia_fs();
    let is_direct =
        |kind: &&Storage| driver.properties.supports(**kind) && (has_nvidia_fs || **kind == Storage::NvmeP2p);
    match storage.iter().find(is_direct) {
        Some(kind) => Ok(format!("cuFile's driver serves this file directly ({kind:?})")),
        None => Err(format!("cuFile's driver has no direct path for this storage ({storage:?})")),
    }
}

fn register(platform: &Platform, file: &OpenFile) -> Result<Registration> {
    let subject = |error: Error| error.on(file.path().display());
    let cuda = platform.cuda().map_err(|why| {
        subject(Error::new(ErrorKind::Unavailable, "register", format!("no CUDA driver: {why}")).because(why))
    })?;
    let driver = platform.cufile_driver().map_err(subject)?;
    let fd = file.direct().map_err(|why| {
        subject(Error::new(ErrorKind::CuFile, "register", format!("no direct I/O on this file: {why}")))
    })?;
    Registration::new(driver.table.clone(), cuda.clone(), fd)
        .map_err(|status| subject(Error::from_cufile("register", status)))
}

/// The kinds of storage that cuFile may see in `file`, by its file system and, for a local one, its disks.
fn storage(platform: &Platform, file: &OpenFile) -> Vec<Storage> {
    // Numbers of `man 2 statfs` and of the file systems' own headers.
    const EXT4: u64 = 0xEF53;
    const XFS: u64 = 0x5846_5342;
    const LUSTRE: u64 = 0x0BD0_0BD0;
    const NFS: u64 = 0x6969;
    const GPFS: u64 = 0x4750_4653;
    const BEEGFS: u64 = 0x1983_0326;
    const WEKA: u64 = 0x1803_1977;
    let Ok(stat) = rustix::fs::fstatfs(file.buffered()) else { return Vec::new() };
    // The field's type differs between architectures; the numbers fit 32 bits.
    match stat.f_type as u64 & 0xffff_ffff {
        LUSTRE => vec![Storage::Lustre],
        NFS => vec![Storage::Nfs],
        GPFS => vec![Storage::Gpfs],
        BEEGFS => vec![Storage::BeeGfs],
        WEKA => vec![Storage::Weka],
        EXT4 | XFS => {
            let (major, minor) = file.facts().device;
            disks(&platform.at(&format!("/sys/dev/block/{major}:{minor}")), 0)
        }
        _ => Vec::new(),
    }
}

/// What the disk at a `/sys` entry is; of a RAID or mapped device, what all its parts are.
fn disks(entry: &Path, depth: u32) -> Vec<Storage> {
    let Ok(entry) = entry.canonicalize() else { return Vec::new() };
    let parts = |path: &Path| -> Vec<_> {
        std::fs::read_dir(path.join("slaves")).map_or_else(|_| Vec::new(), |dir| dir.flatten().collect())
    };
    // A partition's own folder has no `slaves`: those are its disk's.
    let slaves = parts(&entry);
    if !slaves.is_empty() && depth < 4 {
        let mut kinds = slaves.iter().map(|slave| disks(&slave.path(), depth + 1));
        let first = kinds.next().unwrap_or_default();
        return kinds
            .fold(first, |common, other| common.into_iter().filter(|kind| other.contains(kind)).collect());
    }
    match entry.file_name().and_then(|name| name.to_str()) {
        Some(name) if name.starts_with("nvme") => vec![Storage::Nvme, Storage::NvmeP2p],
        Some(name) if name.starts_with("sd") => vec![Storage::Scsi],
        _ => Vec::new(),
    }
}
