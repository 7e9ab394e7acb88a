//! `kvikio doctor` on this machine, on odd paths, and on machines made of test doubles.
#![allow(clippy::unwrap_used)] // A test that cannot be set up has failed.

mod support;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

use kvikio_testkit::fakes::Fakes;
use serde_json::Value;
use support::{json, kvikio, outcome, with_fakes};

fn texts(report: &Value, section: &str) -> String {
    let findings = report[section]["findings"].as_array().unwrap();
    findings.iter().map(|finding| finding["text"].as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_machine_without_a_path_is_well() {
    let (code, out, err) = outcome(kvikio().arg("doctor"));
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    for section in ["driver", "cufile", "system", "settings"] {
        assert!(out.contains(&format!("\n{section}\n")), "{out}");
    }
    for setting in &kvikio::SETTINGS {
        assert!(out.contains(setting.name), "{out}");
    }
}

#[test]
fn the_json_object_says_the_same() {
    let (code, report) = json(kvikio().args(["doctor", "--json"]).env("KVIKIO_NTHREADS", "3"));
    assert_eq!(code, 0);
    assert_eq!(report["kvikio"], env!("CARGO_PKG_VERSION"));
    assert_eq!(report["problems"], 0);
    assert_eq!(report["system"]["threads"], 3);
    assert!(report["path"].is_null() && report["python"].is_null());
    let list = report["settings"]["list"].as_array().unwrap();
    let threads = list.iter().find(|setting| setting["name"] == "num_threads").unwrap();
    assert_eq!((&threads["value"], &threads["set"]), (&3.into(), &true.into()));
    let size = list.iter().find(|setting| setting["name"] == "task_size").unwrap();
    assert_eq!((&size["value"], &size["set"]), (&(4 << 20).into(), &false.into()));
}

#[test]
fn a_file_is_read_and_its_route_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), [1; 5000]).unwrap();
    let (code, report) = json(kvikio().args(["doctor", "--json"]).arg(file.path()));
    assert_eq!(code, 0);
    let path = &report["path"];
    assert_eq!(path["type"], "regular file");
    assert_eq!(path["bytes"], 5000);
    assert_eq!(path["readable"], true);
    assert_eq!(path["writable"], true);
    assert!(path["direct_io"].is_boolean() && path["file_system"].is_string());
    assert_eq!(path["route"], "host", "there is no GPU to read into");
    assert!(path["route_reason"].as_str().unwrap().len() > 5);
}

#[test]
fn a_missing_path_is_a_problem() {
    let (code, out, err) = outcome(kvikio().args(["doctor", "/no/such/file"]));
    assert_eq!((code, err.as_str()), (1, ""));
    assert!(out.contains("problem  /no/such/file: No such file or directory\n"), "{out}");
}

#[test]
fn a_directory_is_judged_by_its_file_system_and_nothing_is_made_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let (code, report) = json(kvikio().args(["doctor", "--json"]).arg(folder.path()));
    assert_eq!(code, 0);
    assert_eq!(report["path"]["type"], "directory");
    assert!(report["path"]["file_system"].is_string());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_fifo_or_socket_is_a_problem_and_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let (code, report) = json(kvikio().args(["doctor", "--json"]).arg(&fifo));
    assert_eq!((code, &report["path"]["type"]), (1, &"FIFO".into()));
    assert!(texts(&report, "path").contains("has no offsets"));

    let socket = folder.path().join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    let (code, report) = json(kvikio().args(["doctor", "--json"]).arg(&socket));
    assert_eq!((code, &report["path"]["type"]), (1, &"socket".into()));
}

#[test]
fn devices_are_not_opened() {
    let (code, report) = json(kvikio().args(["doctor", "--json", "/dev/null"]));
    assert_eq!((code, &report["path"]["type"]), (0, &"character device".into()));
}

#[test]
fn a_link_to_nothing_is_told_from_a_missing_file() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("nothing", &link).unwrap();
    let (code, report) = json(kvikio().args(["doctor", "--json"]).arg(&link));
    assert_eq!(code, 1);
    assert_eq!(report["path"]["findings"][0]["advice"], "it is a symbolic link to nothing");
}

#[test]
fn an_unreadable_file_is_a_problem() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::File::open(file.path()).is_ok() {
        eprintln!("skipped: this user may read everything");
        return;
    }
    let (code, out, _) = outcome(kvikio().arg("doctor").arg(file.path()));
    assert_eq!(code, 1);
    assert!(out.contains("Permission denied"), "{out}");
}

#[test]
fn every_malformed_setting_is_a_problem_of_its_own() {
    let mut command = kvikio();
    command.args(["doctor", "--json"]).env("KVIKIO_TASK_SIZE", "many").env("KVIKIO_NTHREADS", "0");
    let (code, report) = json(&mut command);
    assert_eq!((code, &report["problems"]), (1, &2.into()));
    let texts = texts(&report, "settings");
    assert!(texts.contains("KVIKIO_TASK_SIZE") && texts.contains("KVIKIO_NTHREADS"), "{texts}");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let mut child = kvikio().arg("doctor").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_full_disk_behind_standard_output_is_one() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = kvikio().arg("doctor").stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(err, "kvikio: write standard output: No space left on device\n");
}

#[test]
fn a_wrong_command_line_is_2_and_help_is_0() {
    for args in [&["doctor", "--no-such"][..], &["no-such"], &[]] {
        let (code, out, err) = outcome(kvikio().args(args));
        assert_eq!((code, out.as_str()), (2, ""));
        assert!(err.contains("Usage"), "{err}");
    }
    assert_eq!(outcome(kvikio().arg("--help")).0, 0);
    assert_eq!(outcome(kvikio().arg("--version")).1, format!("kvikio {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_gpu_is_described() {
    let fakes = Fakes::install();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), [1; 5000]).unwrap();
    let mut command = with_fakes(fakes.dir(), "devices=1");
    let (code, report) = json(command.args(["doctor", "--json"]).arg(file.path()));
    assert_eq!((code, &report["gpu"]), (0, &true.into()), "{report:#}");
    assert_eq!(report["driver"]["usable"], true);
    assert_eq!(report["driver"]["library"], fakes.cuda_path().canonicalize().unwrap().to_str().unwrap());
    let device = &report["devices"]["list"][0];
    assert_eq!(report["devices"]["list"].as_array().unwrap().len(), 1);
    for key in ["name", "compute_capability", "pci_bus_id"] {
        assert!(device[key].is_string(), "{device}");
    }
    assert!(device["memory_bytes"].as_u64().unwrap() > 0);
    assert!(report["cufile"]["version"].is_string());
    assert!(report["cufile"]["driver"]["compat_mode_allowed"].is_boolean(), "{report:#}");
    assert_eq!(report["path"]["route"], "staged");
}

#[test]
fn a_driver_without_a_device_or_with_a_fault_is_told_apart() {
    let fakes = Fakes::install();
    let (code, report) = json(with_fakes(fakes.dir(), "devices=0").args(["doctor", "--json"]));
    assert_eq!((code, &report["gpu"]), (0, &false.into()));
    assert!(texts(&report, "driver").contains("no device"), "{report:#}");
    assert!(texts(&report, "cufile").contains("was not opened"), "{report:#}");

    // 34 is what the toolkit's stub answers, 803 a kernel driver older than the library.
    let (code, report) = json(with_fakes(fakes.dir(), "fail:cuInit=0:34").args(["doctor", "--json"]));
    assert_eq!(code, 0);
    assert!(texts(&report, "driver").contains("stub"), "{report:#}");
    let (code, report) = json(with_fakes(fakes.dir(), "fail:cuInit=0:803").args(["doctor", "--json"]));
    assert_eq!((code, &report["driver"]["findings"][0]["level"]), (1, &"problem".into()));
}

#[test]
fn a_cufile_whose_driver_does_not_open_is_noted() {
    let fakes = Fakes::install();
    let mut command = with_fakes(fakes.dir(), "fail:cuFileDriverOpen=0:5001");
    let (code, report) = json(command.args(["doctor", "--json"]));
    assert_eq!((code, &report["cufile"]["driver"]), (0, &Value::Null));
    assert!(texts(&report, "cufile").contains("does not open"), "{report:#}");
}

#[test]
fn where_cufile_is_ruled_out_it_is_not_loaded() {
    let fakes = Fakes::install();
    let mut command = with_fakes(fakes.dir(), "devices=1");
    let (code, report) = json(command.env("KVIKIO_COMPAT_MODE", "ON").args(["doctor", "--json"]));
    assert_eq!((code, &report["cufile"]["library"]), (0, &Value::Null));
}

#[test]
fn where_cufile_is_demanded_and_absent_a_file_cannot_be_opened() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut command = kvikio();
    command.env("KVIKIO_COMPAT_MODE", "OFF").args(["doctor", "--json"]).arg(file.path());
    let (code, report) = json(&mut command);
    assert_eq!(code, 1);
    let findings = report["path"]["findings"].as_array().unwrap();
    assert!(
        findings.iter().any(|one| one["advice"].as_str().is_some_and(|text| text.contains("AUTO"))),
        "{report:#}"
    );
}
