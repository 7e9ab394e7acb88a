//! The project's chores: `cargo xtask help` lists them.

mod chores;
mod house;
mod python;
mod shell;

use std::path::PathBuf;
use std::process::ExitCode;

use crate::shell::Trouble;

const HELP: &str = "\
cargo xtask demo [ARGS]    build the kvikio command (release) and run `kvikio demo ARGS`
cargo xtask test [--fast]  everything that a change has to pass; --fast: only what needs no Python and no release build
cargo xtask lint           formatting, house rules, clippy, ruff, mypy
cargo xtask house          the house rules alone
cargo xtask wheel          build the Python package into dist/
cargo xtask help           this text

Python 3.11 or newer is looked for as `python3`, or where the variable PYTHON says. Packages go to .venv, nowhere else.
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (chore, rest) = args.split_first().map_or(("help", &[][..]), |(first, rest)| (first, rest));
    let root = root();
    let outcome = match (chore, rest) {
        ("demo", _) => chores::demo(&root, rest),
        ("test", []) => chores::test(&root, false),
        ("test", [flag]) if flag == "--fast" => chores::test(&root, true),
        ("lint", []) => chores::lint(&root),
        ("house", []) => house::check(&root),
        ("wheel", []) => python::wheel(&root).map(|wheel| println!("built {}", wheel.display())),
        ("help" | "--help" | "-h", _) => {
            print!("{HELP}");
            Ok(())
        }
        _ => {
            eprintln!("xtask: `{}` is not one of the chores\n", args.join(" "));
            eprint!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Trouble(text)) => {
            eprintln!("xtask: {text}");
            ExitCode::FAILURE
        }
    }
}

/// The folder of the workspace: this crate's parent.
fn root() -> PathBuf {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    own.parent().map_or_else(|| own.clone(), PathBuf::from)
}
