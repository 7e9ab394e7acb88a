//! Tells the package which commit it is built from, where there is one.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=KVIKIO_GIT_COMMIT");
    println!("cargo::rerun-if-changed=../../.git/logs/HEAD");
    // Of an unpacked source distribution, a `.git` further up is somebody else's.
    let is_checkout = std::path::Path::new("../../.git").exists();
    let asked = || Command::new("git").args(["rev-parse", "HEAD"]).output().ok().filter(|_| is_checkout);
    let commit = std::env::var("KVIKIO_GIT_COMMIT").ok().or_else(|| {
        let output = asked().filter(|output| output.status.success())?;
        String::from_utf8(output.stdout).ok()
    });
    println!("cargo::rustc-env=KVIKIO_GIT_COMMIT={}", commit.unwrap_or_default().trim());
}
