//! Limits and facts of the system, and what else is installed beside us.

use std::path::PathBuf;

use kvikio::{Options, Platform};
use rustix::process::{Resource, getrlimit};
use serde_json::{Value, json};

use crate::doctor::report::{Section, listed};
use crate::units::bytes;

/// Limits, CPUs, threads.
pub fn examine(platform: &Platform, options: &Options) -> Section {
    let mut section = Section::new("system");
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let allowed = rustix::thread::sched_getaffinity(None).map_or(cpus, |set| set.count() as usize);
    let page = rustix::param::page_size();
    let release = std::fs::read_to_string(platform.at("/proc/sys/kernel/osrelease")).unwrap_or_default();
    section.fact("kernel", release.trim());
    section.fact("cpus", cpus);
    section.fact("cpus_by_affinity", allowed);
    section.fact("threads", options.num_threads());
    section.fact("page_size", page);
    section.fact("io_uring", io_uring(platform));
    section.ok(format!("Linux {}, pages of {}", release.trim(), bytes(page as u64)));
    let group = if cpus < allowed {
        format!(" ({allowed} by affinity, fewer by control group)")
    } else {
        String::new()
    };
    section
        .ok(format!("{cpus} CPUs for this process{group}, up to {} worker threads", options.num_threads()));
    files(&mut section);
    locked_memory(&mut section);
    section
}

fn files(section: &mut Section) {
    /// Every open file takes up to two descriptors, and programs like to open a few hundred.
    const FEW: u64 = 1024;
    let limit = getrlimit(Resource::Nofile);
    section.fact("open_files", json!({"soft": limit.current, "hard": limit.maximum}));
    match limit.current {
        Some(count) if count < FEW => section.note(
            format!("at most {count} open files; a file of ours takes up to two"),
            format!("`ulimit -n {FEW}`, or more where the hard limit allows"),
        ),
        Some(count) => section.ok(format!("up to {count} open files")),
        None => section.ok("any number of open files"),
    }
}

fn locked_memory(section: &mut Section) {
    let limit = getrlimit(Resource::Memlock);
    section.fact("locked_memory_bytes", json!({"soft": limit.current, "hard": limit.maximum}));
    let text = limit.current.map_or_else(|| "unlimited".to_owned(), bytes);
    section.ok(format!(
        "locked memory {text} (bounce buffers are locked by the CUDA driver, outside this limit)"
    ));
}

/// Whether programs may use it: what the switch of newer kernels says, null where there is none.
fn io_uring(platform: &Platform) -> Value {
    let text = std::fs::read_to_string(platform.at("/proc/sys/kernel/io_uring_disabled"));
    match text.as_deref().map(str::trim) {
        Ok("0") => "allowed".into(),
        Ok("1") => "allowed to a group".into(),
        Ok("2") => "disabled".into(),
        _ => Value::Null,
    }
}

/// What a Python interpreter would find beside us.
pub fn python(paths: &[PathBuf]) -> Section {
    let mut section = Section::new("python");
    let found = |prefixes: &[&str]| -> Vec<String> {
        let folders = paths.iter().filter_map(|path| std::fs::read_dir(path).ok());
        let names = folders.flatten().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names
            .filter_map(|name| name.strip_suffix(".dist-info").map(str::to_owned))
            .filter(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)))
            .collect();
        names.sort();
        names.dedup();
        names
    };
    let rivals = found(&["kvikio_cu11-", "kvikio_cu12-", "kvikio_cu13-"]);
    let libraries = found(&["libkvikio_cu11-", "libkvikio_cu12-", "libkvikio_cu13-", "libkvikio-"]);
    section.fact("released_kvikio", rivals.clone());
    section.fact("released_libkvikio", libraries.clone());
    if rivals.is_empty() {
        section.ok("no other package holds the module name `kvikio`");
    } else {
        section.problem(
            format!(
                "{} is installed too, and both packages put their files into one folder `kvikio`",
                listed(&rivals)
            ),
            "uninstall both, then install the one you want",
        );
    }
    if !libraries.is_empty() {
        section.ok(format!(
            "{} is installed too: a C++ library under another name, in nobody's way",
            listed(&libraries)
        ));
    }
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_released_kvikio_beside_us_is_a_problem() {
        let folder = tempfile::tempdir().unwrap();
        let paths = [folder.path().to_owned(), PathBuf::from("/no/such/folder")];
        assert_eq!(python(&paths).facts["released_kvikio"], json!([]));
        std::fs::create_dir(folder.path().join("kvikio_cu13-26.10.0.dist-info")).unwrap();
        std::fs::create_dir(folder.path().join("libkvikio_cu13-26.10.0.dist-info")).unwrap();
        let section = python(&paths);
        assert_eq!(section.facts["released_kvikio"], json!(["kvikio_cu13-26.10.0"]));
        assert_eq!(section.facts["released_libkvikio"], json!(["libkvikio_cu13-26.10.0"]));
        assert!(section.findings[0].advice.is_some());
    }
}
