//! A path: what it is, what its file system grants, and which route a read of it into GPU memory would take.

use std::path::Path;

use kvikio::{Engine, File, Options, Route};
use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags, StatxFlags};
use serde_json::Value;

use crate::doctor::report::Section;
use crate::doctor::storage::{block_device, file_system};
use crate::units::bytes;

/// The name of the section.
pub const NAME: &str = "path";

/// Looks at `path`, and reads a few bytes where it is a file. Creates, changes and waits for nothing.
pub fn examine(path: &Path, engine: &Engine, options: &Options, has_gpu: bool) -> Section {
    let mut section = Section::new(NAME);
    section.fact("path", path.display().to_string());
    for key in [
        "type",
        "bytes",
        "file_system",
        "device",
        "direct_io",
        "direct_io_alignment",
        "route",
        "route_reason",
    ] {
        section.fact(key, Value::Null);
    }
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::DIOALIGN;
    let stat = match rustix::fs::statx(rustix::fs::CWD, path, AtFlags::empty(), wanted) {
        Ok(stat) => stat,
        Err(errno) => {
            let advice = match errno {
                rustix::io::Errno::NOENT if path.is_symlink() => "it is a symbolic link to nothing",
                rustix::io::Errno::NOENT => "check the spelling and, in a container, what is mounted",
                rustix::io::Errno::ACCESS => "a folder on the way to it may not be entered by this user",
                _ => "",
            };
            section.problem(format!("{}: {}", path.display(), words(errno)), advice);
            return section;
        }
    };
    let kind = FileType::from_raw_mode(stat.stx_mode.into());
    section.fact("type", name(kind));
    section.fact("bytes", stat.stx_size);
    place(&mut section, path, &stat, engine);
    access(&mut section, path, kind);
    match kind {
        FileType::RegularFile => {
            direct_io(&mut section, path, &stat);
            route(&mut section, path, engine, options, has_gpu);
        }
        FileType::Directory => section.note(
            "a directory: only its file system was judged",
            "name a file in it to learn the file's route",
        ),
        FileType::BlockDevice => section.note("a block device: it was not opened", ""),
        FileType::CharacterDevice => section.note("a character device: it was not opened", ""),
        _ => section.problem(
            format!("a {} has no offsets to read or write at", name(kind)),
            "copy what comes out of it into a file",
        ),
    }
    section
}

fn words(errno: rustix::io::Errno) -> String {
    let text = std::io::Error::from(errno).to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

fn name(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "regular file",
        FileType::Directory => "directory",
        FileType::Symlink => "symbolic link",
        FileType::Fifo => "FIFO",
        FileType::Socket => "socket",
        FileType::CharacterDevice => "character device",
        FileType::BlockDevice => "block device",
        FileType::Unknown => "file of an unknown type",
    }
}

/// The file system and the disk.
fn place(section: &mut Section, path: &Path, stat: &rustix::fs::Statx, engine: &Engine) {
    let (major, minor) = (stat.stx_dev_major, stat.stx_dev_minor);
    let disk = block_device(&engine.platform().at("/"), major, minor);
    let system = match rustix::fs::statfs(path) {
        Err(errno) => format!("of an unknown file system ({})", words(errno)),
        Ok(facts) => {
            // The field's type differs between architectures; the numbers fit 32 bits.
            let magic = facts.f_type as u64 & 0xffff_ffff;
            file_system(magic).map_or_else(|| format!("file system {magic:#x}"), str::to_owned)
        }
    };
    let device = match &disk {
        Some(disk) => format!("{major}:{minor} ({disk})"),
        None => format!("{major}:{minor} (no disk of its own)"),
    };
    let what = match FileType::from_raw_mode(stat.stx_mode.into()) {
        FileType::RegularFile => format!("file of {}", bytes(stat.stx_size)),
        other => name(other).to_owned(),
    };
    section.ok(format!("{what} on {system}, device {device}"));
    section.fact("file_system", system);
    section.fact("device", serde_json::json!({"major": major, "minor": minor, "disk": disk}));
}

/// What this user may do with it.
fn access(section: &mut Section, path: &Path, kind: FileType) {
    let may = |access| rustix::fs::accessat(rustix::fs::CWD, path, access, AtFlags::EACCESS);
    let (read, write) = (may(Access::READ_OK), may(Access::WRITE_OK));
    section.fact("readable", read.is_ok());
    section.fact("writable", write.is_ok());
    match read {
        // A file's own reading is tried below.
        Ok(()) => {}
        Err(_) if kind == FileType::RegularFile => {}
        Err(errno) => section.problem(format!("not readable: {}", words(errno)), "check its permissions"),
    }
    match write {
        Ok(()) => section.ok("writable"),
        Err(errno) => section.note(format!("not writable: {}", words(errno)), ""),
    }
}

fn direct_io(section: &mut Section, path: &Path, stat: &rustix::fs::Statx) {
    let told = stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    let units = (stat.stx_dio_mem_align, stat.stx_dio_offset_align);
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let refused = match rustix::fs::open(path, flags, Mode::empty()) {
        _ if told && units == (0, 0) => Some("the file system has none for this file".to_owned()),
        Ok(_closed) => None,
        Err(errno) => Some(format!("the file system refused it: {}", words(errno))),
    };
    section.fact("direct_io", refused.is_none());
    match refused {
        Some(why) => section.note(
            format!("no direct I/O: {why}"),
            "reads and writes go through the page cache; cuFile has no direct path either",
        ),
        None if told => {
            section.ok(format!("direct I/O, memory in units of {}, offsets of {}", units.0, units.1));
            section.fact("direct_io_alignment", serde_json::json!({"memory": units.0, "offset": units.1}));
        }
        None => section.ok("direct I/O (the file system does not say its alignment: whole pages are used)"),
    }
}

/// Opens the file as a program would, reads a little of it, and asks for the route.
fn route(section: &mut Section, path: &Path, engine: &Engine, options: &Options, has_gpu: bool) {
    let file = match File::options().read(true).options(options.clone()).engine(engine).open(path) {
        Ok(file) => file,
        Err(error) => {
            let advice = match error.kind() {
                kvikio::ErrorKind::PermissionDenied => "check its permissions",
                kvikio::ErrorKind::CuFile | kvikio::ErrorKind::Unavailable => {
                    "compat_mode is OFF, which demands cuFile: set KVIKIO_COMPAT_MODE to AUTO"
                }
                _ => "",
            };
            return section.problem(error.to_string(), advice);
        }
    };
    match file.read_into(&mut [0; 4096], 0) {
        Ok(_some) => section.ok("readable"),
        Err(error) => {
            return section.problem(error.to_string(), "the disk or the network behind it may fail");
        }
    }
    if !has_gpu {
        section.fact("route", "host");
        section.fact("route_reason", "there is no GPU to read into");
        return section.ok("a read goes straight into host memory; there is no GPU to read into (see above)");
    }
    let route = match file.route() {
        Route::Direct => "direct",
        Route::Host => "host",
        Route::Staged => "staged",
    };
    section.fact("route", route);
    section.fact("route_reason", file.route_reason());
    let meaning = match file.route() {
        Route::Direct => "by cuFile, straight from the storage",
        Route::Host | Route::Staged => "through page-locked bounce buffers",
    };
    let reason = file.route_reason();
    section.ok(format!("a read into GPU memory goes {meaning} ({route}): {reason}"));
}
