//! The house rules that no compiler checks. `DESIGN.md` gives the reasons.

mod imports;
mod source;
mod text;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::house::source::Source;
use crate::shell::{Outcome, Trouble};

/// A file is better split above so many code lines,
const LONG: usize = 300;
/// and has to be above so many.
const TOO_LONG: usize = 450;

/// A breach of a rule, at a line where there is one.
#[derive(Debug, PartialEq, Eq)]
pub struct Breach {
    pub file: String,
    pub line: Option<usize>,
    pub text: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.text),
            None => write!(f, "{}: {}", self.file, self.text),
        }
    }
}

/// Checks all Rust files of the workspace.
pub fn check(root: &Path) -> Outcome {
    let mut sources = Vec::new();
    for folder in ["crates", "xtask"] {
        collect(root, &root.join(folder), &mut sources)?;
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    for source in &sources {
        let lines = source.code_lines();
        if (LONG + 1..=TOO_LONG).contains(&lines) {
            println!("note: {}: {lines} code lines, aim below {LONG}", source.path);
        }
    }
    let breaches = breaches(&sources);
    for breach in &breaches {
        println!("{breach}");
    }
    match breaches.len() {
        0 => {
            println!("{} files keep the house rules", sources.len());
            Ok(())
        }
        count => Err(Trouble(format!("{count} breaches of the house rules"))),
    }
}

fn breaches(sources: &[Source]) -> Vec<Breach> {
    let mut found: Vec<Breach> = sources
        .iter()
        .filter(|source| source.code_lines() > TOO_LONG)
        .map(|source| source.breach(None, format!("{} code lines, at most {TOO_LONG}", source.code_lines())))
        .collect();
    found.extend(sources.iter().flat_map(text::check));
    found.extend(imports::check(sources));
    found
}

fn collect(root: &Path, folder: &Path, sources: &mut Vec<Source>) -> Outcome {
    let failed = |error: &std::io::Error| Trouble(format!("read {}: {error}", folder.display()));
    for entry in fs::read_dir(folder).map_err(|error| failed(&error))? {
        let path: PathBuf = entry.map_err(|error| failed(&error))?.path();
        if path.is_dir() && !path.is_symlink() {
            collect(root, &path, sources)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).map_err(|error| failed(&error))?;
            let relative = path.strip_prefix(root).unwrap_or(&path);
            sources.push(Source::new(&relative.to_string_lossy(), &text));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_be_long_and_not_too_long() {
        let of = |lines: usize| Source::new("crates/cli/src/a.rs", &"let a = 1;\n".repeat(lines));
        assert!(breaches(&[of(TOO_LONG)]).is_empty());
        assert_eq!(
            breaches(&[of(TOO_LONG + 1)])[0].to_string(),
            "crates/cli/src/a.rs: 451 code lines, at most 450"
        );
    }

    #[test]
    fn this_workspace_keeps_the_rules() {
        assert!(check(&crate::root()).is_ok());
    }
}
