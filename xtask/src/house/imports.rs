//! Direction in the library: a file imports from lower floors or its own room, never from the crate's root, and no
//! two files import each other.

use std::collections::{BTreeMap, BTreeSet};

use crate::house::Breach;
use crate::house::source::Source;

const FOLDER: &str = "crates/core/src/";

/// The rooms (a folder, or a file beside `lib.rs`) and their floors.
const FLOORS: [(&str, u32); 13] = [
    ("error", 0),
    ("process", 0),
    ("options", 1),
    ("memory", 2),
    ("platform", 3),
    ("engine", 4),
    ("local", 5),
    ("mapping", 5),
    ("remote", 5),
    ("file", 6),
    ("mmap", 6),
    ("remote_file", 6),
    ("lib", 7),
];

/// A file of the library by its module path (`engine::plan`, or `lib`), with what it imports.
#[derive(Debug)]
struct Module<'a> {
    source: &'a Source,
    /// Module paths with the place in the code.
    imports: Vec<(String, usize)>,
}

/// Checks all files of the library.
pub fn check(sources: &[Source]) -> Vec<Breach> {
    let files: BTreeMap<String, &Source> =
        sources.iter().filter_map(|source| Some((module_path(&source.path)?, source))).collect();
    let mut found = Vec::new();
    let mut modules = BTreeMap::new();
    for (name, source) in &files {
        let mut imports = Vec::new();
        for (path, at) in paths(name, source) {
            match resolve(&path, &files) {
                Some(target) if target == *name => {}
                Some(target) => imports.push((target, at)),
                None => {
                    let text = format!("`crate::{}` comes from the crate's root", path.join("::"));
                    found.push(source.breach(Some(at), text));
                }
            }
        }
        modules.insert(name.as_str(), Module { source, imports });
    }
    for (name, module) in &modules {
        found.extend(climbs(name, module));
    }
    found.extend(cycles(&modules));
    found
}

/// `engine::plan` for `crates/core/src/engine/plan.rs`, `engine` for its `mod.rs`.
fn module_path(path: &str) -> Option<String> {
    let inner = path.strip_prefix(FOLDER)?.strip_suffix(".rs")?;
    Some(inner.strip_suffix("/mod").unwrap_or(inner).replace('/', "::"))
}

fn room(module: &str) -> &str {
    module.split("::").next().unwrap_or(module)
}

fn floor(module: &str) -> Option<u32> {
    FLOORS.iter().find(|(name, _)| *name == room(module)).map(|(_, floor)| *floor)
}

fn climbs(name: &str, module: &Module<'_>) -> Vec<Breach> {
    let Some(own) = floor(name) else {
        let text = format!("room `{}` is on no floor: add it to xtask/src/house/imports.rs", room(name));
        return vec![module.source.breach(None, text)];
    };
    let climbing = module
        .imports
        .iter()
        .filter(|(target, _)| room(target) != room(name) && floor(target).is_none_or(|other| other >= own));
    let text = |target: &str| format!("imports `{target}`, which is not on a lower floor");
    climbing.map(|(target, at)| module.source.breach(Some(*at), text(target))).collect()
}

/// The file that holds what a path names: the longest beginning of it that is a module.
fn resolve(path: &[String], files: &BTreeMap<String, &Source>) -> Option<String> {
    (1..=path.len()).rev().map(|len| path[..len].join("::")).find(|name| files.contains_key(name))
}

/// The paths that begin at the crate (`crate::`, `super::`, or a submodule's name), with their places.
fn paths(name: &str, source: &Source) -> Vec<(Vec<String>, usize)> {
    let code = &source.product;
    let own: Vec<String> =
        if name == "lib" { Vec::new() } else { name.split("::").map(str::to_owned).collect() };
    let mut starts: Vec<(String, Vec<String>)> = vec![("crate".to_owned(), Vec::new())];
    if let Some((_, parent)) = own.split_last() {
        starts.push(("super".to_owned(), parent.to_vec()));
    }
    for child in submodules(code) {
        let mut path = own.clone();
        path.push(child.clone());
        starts.push((child, path));
    }
    let mut found = Vec::new();
    for (word, prefix) in &starts {
        let start = format!("{word}::");
        for (at, _) in code.match_indices(&start) {
            let before = code[..at].chars().next_back().unwrap_or(' ');
            if before.is_alphanumeric() || matches!(before, '_' | '$' | ':') {
                continue;
            }
            let mut tails = Vec::new();
            tree(&code[at + start.len()..], prefix, &mut tails);
            found.extend(tails.into_iter().map(|path| (path, at)));
        }
    }
    found
}

/// The names in `mod name;`.
fn submodules(code: &str) -> BTreeSet<String> {
    let declared = code.lines().filter_map(|line| {
        let line = line.trim().trim_start_matches("pub(crate) ").trim_start_matches("pub ");
        line.strip_prefix("mod ")?.strip_suffix(';')
    });
    declared.map(str::to_owned).collect()
}

/// The paths of a `use` tree (or of an expression) that begins with `text`, each after `prefix`; answers what is left.
fn tree<'a>(text: &'a str, prefix: &[String], found: &mut Vec<Vec<String>>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
            if rest.is_empty() {
                return rest;
            }
            if let Some(after) = rest.strip_prefix('}') {
                return after;
            }
            let after = tree(rest, prefix, found);
            // What cannot be read is stepped over, so that this ends.
            rest = if after.len() == rest.len() { rest.get(1..).unwrap_or("") } else { after };
        }
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let mut path = prefix.to_vec();
    if !word.is_empty() && word != "self" {
        path.push(word.to_owned());
    }
    match rest.strip_prefix("::") {
        Some(rest) if !word.is_empty() => tree(rest, &path, found),
        _ => {
            found.push(path);
            // Another name for it is not a path.
            let renamed = rest.trim_start().strip_prefix("as ").map(str::trim_start);
            renamed.map_or(rest, |rest| rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_'))
        }
    }
}

/// Files that reach themselves by their imports, each circle once.
fn cycles(modules: &BTreeMap<&str, Module<'_>>) -> Vec<Breach> {
    let mut done = BTreeSet::new();
    let mut found = Vec::new();
    for name in modules.keys() {
        let mut trail = Vec::new();
        walk(name, modules, &mut trail, &mut done, &mut found);
    }
    found
}

fn walk<'a>(
    name: &'a str,
    modules: &'a BTreeMap<&str, Module<'_>>,
    trail: &mut Vec<&'a str>,
    done: &mut BTreeSet<&'a str>,
    found: &mut Vec<Breach>,
) {
    if let Some(start) = trail.iter().position(|other| *other == name) {
        let circle = trail[start..].join(" -> ");
        if let Some(module) = modules.get(name) {
            found.push(module.source.breach(None, format!("imports in a circle: {circle} -> {name}")));
        }
        return;
    }
    if done.contains(name) {
        return;
    }
    trail.push(name);
    let targets: BTreeSet<&str> = modules
        .get(name)
        .map(|module| module.imports.iter().map(|(target, _)| target.as_str()).collect())
        .unwrap_or_default();
    for target in targets {
        walk(target, modules, trail, done, found);
    }
    trail.pop();
    done.insert(name);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaches(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> =
            files.iter().map(|(path, text)| Source::new(&format!("{FOLDER}{path}"), text)).collect();
        check(&sources).iter().map(|breach| breach.to_string().replace(FOLDER, "")).collect()
    }

    const ERROR: (&str, &str) = ("error.rs", "pub struct Error;\npub fn f() { crate::error::Error; }\n");

    #[test]
    fn lower_floors_and_the_own_room_are_free() {
        let files = [
            ERROR,
            ("lib.rs", "mod engine;\nmod error;\npub use engine::plan::Plan;\npub use error::Error;\n"),
            (
                "engine/mod.rs",
                "mod plan;\nuse crate::error::{Error, Kind as K};\nuse crate::engine::plan::Plan;\n",
            ),
            ("engine/plan.rs", "//! use crate::file::File;\nuse crate::{error::Error};\n"),
        ];
        assert_eq!(breaches(&files), Vec::<String>::new());
    }

    #[test]
    fn what_climbs_or_crosses_is_found_in_use_trees_and_in_expressions() {
        let files = [
            ("error.rs", "use crate::options::{parse::{A, B}, C};\n"),
            ("options/mod.rs", ""),
            ("options/parse.rs", "\nfn f() { let x = crate::engine::run(); }\n"),
            ("engine.rs", ""),
            ("local/a.rs", "use crate::remote::b::B;\n"),
            ("remote/b.rs", ""),
        ];
        assert_eq!(
            breaches(&files),
            [
                "error.rs:1: imports `options::parse`, which is not on a lower floor",
                "error.rs:1: imports `options::parse`, which is not on a lower floor",
                "error.rs:1: imports `options`, which is not on a lower floor",
                "local/a.rs:1: imports `remote::b`, which is not on a lower floor",
                "options/parse.rs:2: imports `engine`, which is not on a lower floor",
            ]
        );
    }

    #[test]
    fn names_of_the_crates_root_are_found() {
        let files = [ERROR, ("engine.rs", "use crate::Error;\nuse crate::{File, error::Error};\n")];
        assert_eq!(
            breaches(&files),
            [
                "engine.rs:1: `crate::Error` comes from the crate's root",
                "engine.rs:2: `crate::File` comes from the crate's root",
            ]
        );
    }

    #[test]
    fn circles_are_found_once_also_through_super_and_submodules() {
        let files = [
            ("engine/mod.rs", "mod plan;\nfn f() { plan::g() }\n"),
            ("engine/plan.rs", "use crate::engine::pool::Pool;\n"),
            ("engine/pool.rs", "use super::Engine;\n"),
        ];
        assert_eq!(
            breaches(&files),
            ["engine/mod.rs: imports in a circle: engine -> engine::plan -> engine::pool -> engine"]
        );
    }

    #[test]
    fn a_room_without_a_floor_is_found() {
        assert_eq!(
            breaches(&[("cellar.rs", "")]),
            ["cellar.rs: room `cellar` is on no floor: add it to xtask/src/house/imports.rs"]
        );
    }
}
