//! Rules about single files: where danger may be, where the environment is read, what is not left behind.

use crate::house::Breach;
use crate::house::source::Source;

/// The files that may hold unsafe code: foreign functions, memory, descriptors, and test doubles of C libraries.
const UNSAFE: [&str; 21] = [
    "crates/sys/src/dylib.rs",
    "crates/sys/src/cuda.rs",
    "crates/sys/src/cufile.rs",
    "crates/core/src/memory/span.rs",
    "crates/core/src/memory/buf.rs",
    "crates/core/src/memory/device.rs",
    "crates/core/src/memory/bounce.rs",
    "crates/core/src/memory/cudarc.rs",
    "crates/core/src/engine/source.rs",
    "crates/core/src/engine/ticket.rs",
    "crates/core/src/local/fd.rs",
    "crates/core/src/local/file.rs",
    "crates/core/src/local/memory.rs",
    "crates/core/src/remote/object.rs",
    "crates/core/src/local/cufile.rs",
    "crates/core/src/process.rs",
    "crates/core/src/remote/transport/socket.rs",
    "crates/core/tests/",
    "crates/python/src/buffer.rs",
    "crates/python/src/dlpack.rs",
    "crates/testkit/",
];

/// Checks one file.
pub fn check(source: &Source) -> Vec<Breach> {
    let mut found = Vec::new();
    let mut forbid = |code: &str, word: &str, why: &str| {
        found.extend(
            code.match_indices(word).map(|(at, _)| source.breach(Some(at), format!("`{word}`: {why}"))),
        );
    };
    if !UNSAFE.iter().any(|allowed| source.path.starts_with(allowed)) {
        let why = "unsafe code stays in the files that xtask/src/house/text.rs lists";
        forbid(&source.code, "allow(unsafe_code)", why);
    }
    if source.path.starts_with("crates/core/src/") && !source.path.starts_with("crates/core/src/options/") {
        forbid(&source.product, "env::", "the environment is read in crates/core/src/options only");
    }
    forbid(&source.code, "todo!", "finish it, or file an issue");
    forbid(&source.code, "#[ignore", "a test runs, or says by itself why it cannot");
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<Option<usize>> {
        check(&Source::new(path, text)).into_iter().map(|breach| breach.line).collect()
    }

    #[test]
    fn unsafe_code_stays_where_it_is_allowed() {
        let text = "\n#![allow(unsafe_code)]\n";
        assert_eq!(lines("crates/core/src/engine/pool.rs", text), [Some(2)]);
        assert!(lines("crates/core/src/memory/span.rs", text).is_empty());
        assert!(lines("crates/testkit/fakes/src/pages.rs", text).is_empty());
    }

    #[test]
    fn the_environment_is_read_in_one_place() {
        let text = "fn f() {\n    std::env::var(\"A\");\n}\n";
        assert_eq!(lines("crates/core/src/file.rs", text), [Some(2)]);
        assert!(lines("crates/core/src/options/parse.rs", text).is_empty());
        assert!(lines("crates/cli/src/demo.rs", text).is_empty());
        assert!(
            lines("crates/core/src/file.rs", "#[cfg(test)]\nmod tests { std::env::var(\"A\"); }").is_empty()
        );
    }

    #[test]
    fn nothing_is_left_undone_or_ignored() {
        assert_eq!(lines("xtask/src/a.rs", "// todo!\nfn f() { todo!() }\n#[ignore]\n"), [Some(2), Some(3)]);
    }
}
