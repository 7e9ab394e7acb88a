//! `kvikio demo` without a GPU and with the test double of one.
#![allow(clippy::unwrap_used)] // A test that cannot be set up has failed.

mod support;

use kvikio_testkit::fakes::Fakes;
use support::{bytes, json, kvikio, outcome, with_fakes};

#[test]
fn random_bytes_are_read_checked_and_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = kvikio();
    let (code, out, err) = outcome(command.args(["demo", "--size", "3MiB"]).env("TMPDIR", folder.path()));
    assert_eq!((code, err.as_str()), (0, ""));
    for words in
        ["3 MiB", "host memory", "kvikio, into host memory", "plain read", "median of 3", "all equal"]
    {
        assert!(out.contains(words), "{words}: {out}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_given_file_is_read_and_left_alone() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let content = bytes(9_000_001);
    std::fs::write(file.path(), &content).unwrap();
    let (code, result) = json(kvikio().args(["demo", "--json"]).arg(file.path()));
    assert_eq!(code, 0);
    assert_eq!(result["bytes"], 9_000_001);
    assert_eq!(result["verified"], true);
    assert_eq!(result["device"], serde_json::Value::Null);
    assert_eq!(result["xxh3_128"], format!("{:032x}", xxhash_rust::xxh3::xxh3_128(&content)));
    let rows = result["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|row| row["gb_per_s"].as_f64().unwrap() > 0.0));
    assert_eq!(rows[1]["ratio"], 1.0);
    assert_eq!(std::fs::read(file.path()).unwrap(), content);
}

#[test]
fn an_empty_file_is_no_trouble() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let (code, result) = json(kvikio().args(["demo", "--json"]).arg(file.path()));
    assert_eq!((code, &result["bytes"]), (0, &0.into()));
    assert!(result["rows"][0]["gb_per_s"].is_null());
    assert_eq!(outcome(kvikio().args(["demo", "--size", "0"])).0, 0);
}

#[test]
fn failures_are_one_line_on_standard_error() {
    for (args, words) in [
        (&["demo", "/no/such/file"][..], "kvikio: open /no/such/file: No such file or directory\n"),
        (&["demo", "/dev/zero"], "kvikio: open /dev/zero: not a regular file\n"),
        (&["demo", "/tmp"], "kvikio: open /tmp: not a regular file\n"),
        (&["demo", "--device", "0", "--size", "1"], "kvikio: use device 0: libcuda.so.1"),
    ] {
        let (code, out, err) = outcome(kvikio().args(args));
        assert_eq!((code, out.as_str()), (1, ""), "{args:?}");
        assert!(err.starts_with(words) && err.lines().count() == 1, "{err}");
    }
    let (code, _, err) = outcome(kvikio().args(["demo", "--size", "1"]).env("TMPDIR", "/no/such/folder"));
    assert_eq!(code, 1);
    assert!(err.contains("choose another folder with TMPDIR"), "{err}");
    let (code, _, err) = outcome(kvikio().args(["demo", "--size", "1"]).env("KVIKIO_TASK_SIZE", "x"));
    assert_eq!(code, 1);
    assert!(err.contains("KVIKIO_TASK_SIZE"), "{err}");
}

#[test]
fn a_wrong_size_or_both_a_file_and_a_size_is_a_wrong_command_line() {
    assert_eq!(outcome(kvikio().args(["demo", "--size", "lots"])).0, 2);
    assert_eq!(outcome(kvikio().args(["demo", "--size", "1", "/tmp/file"])).0, 2);
}

#[test]
fn a_gpu_is_read_into_by_three_ways() {
    let fakes = Fakes::install();
    let mut command = with_fakes(fakes.dir(), "devices=1");
    let (code, result) = json(command.args(["demo", "--json", "--size", "9000001"]));
    assert_eq!(code, 0);
    assert_eq!(result["device"]["number"], 0);
    assert_eq!(result["route"], "staged");
    assert!(result["file"].is_null());
    let names: Vec<_> = result["rows"].as_array().unwrap().iter().map(|row| row["name"].clone()).collect();
    assert_eq!(
        names,
        ["kvikio, into GPU 0", "plain read, then cuMemcpy to GPU 0", "plain read, into host memory"]
    );
    let (code, out, _) = outcome(with_fakes(fakes.dir(), "devices=1").args(["demo", "--size", "1MiB"]));
    assert_eq!(code, 0);
    assert!(out.contains("kvikio, into GPU 0") && out.contains("cuMemcpy"), "{out}");
}

#[test]
fn a_gpu_that_is_not_there_or_fails_is_an_error() {
    let fakes = Fakes::install();
    let mut command = with_fakes(fakes.dir(), "devices=1");
    let (code, _, err) = outcome(command.args(["demo", "--size", "1MiB", "--device", "1"]));
    assert_eq!(code, 1);
    assert!(err.contains("this machine has 1"), "{err}");
    let mut command = with_fakes(fakes.dir(), "devices=1,fail:cuMemcpyHtoDAsync_v2=0:700");
    let (code, out, err) = outcome(command.args(["demo", "--size", "9MiB"]));
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.starts_with("kvikio: "), "{err}");
}
