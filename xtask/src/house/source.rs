//! A Rust file without its comments and without what its strings say, so that rules look at code only.

use crate::house::Breach;

/// A file of the workspace.
#[derive(Debug)]
pub struct Source {
    /// Its path below the workspace, with `/`.
    pub path: String,
    /// The whole file, line by line as long as it was: comments are blank, strings hold quotation marks.
    pub code: String,
    /// The same up to the first test module.
    pub product: String,
}

impl Source {
    /// Reads a file.
    pub fn new(path: &str, text: &str) -> Self {
        let code = strip(text);
        let product = before_tests(&code).to_owned();
        Self { path: path.to_owned(), code, product }
    }

    /// Lines with code on them, tests not counted.
    pub fn code_lines(&self) -> usize {
        self.product.lines().filter(|line| !line.trim().is_empty()).count()
    }

    /// A breach in this file, at the byte `at` of its code.
    pub fn breach(&self, at: Option<usize>, text: impl Into<String>) -> Breach {
        let line = at.map(|at| self.code[..at].matches('\n').count() + 1);
        Breach { file: self.path.clone(), line, text: text.into() }
    }
}

/// The code before `#[cfg(test)]` on a module.
fn before_tests(code: &str) -> &str {
    for (at, mark) in code.match_indices("#[cfg(test)]") {
        let next = code[at + mark.len()..].trim_start();
        if next.starts_with("mod ") {
            return &code[..at];
        }
    }
    code
}

fn strip(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    let mut previous = ' ';
    while let Some(first) = rest.chars().next() {
        let in_word = previous.is_alphanumeric() || previous == '_';
        let (len, fill) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), Some(' '))
        } else if rest.starts_with("/*") {
            (block_comment(rest), Some(' '))
        } else if first == '"' {
            (string(rest), Some('"'))
        } else if let (false, Some(len)) = (in_word, raw_string(rest)) {
            (len, Some('"'))
        } else if let Some(len) = character(rest) {
            (len, Some('\''))
        } else {
            (first.len_utf8(), None)
        };
        let (taken, left) = rest.split_at(len);
        match fill {
            None => code.push_str(taken),
            Some(fill) => code.extend(taken.chars().map(|c| if c == '\n' { c } else { fill })),
        }
        previous = taken.chars().next_back().unwrap_or(previous);
        rest = left;
    }
    code
}

/// The length of a block comment, which may hold others.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let here = &text.as_bytes()[at..];
        if here.starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if here.starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// The length of a string with its quotation marks.
fn string(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of a raw string, where one begins here.
fn raw_string(text: &str) -> Option<usize> {
    let start = text.find('r').filter(|at| text[..*at].is_empty() || matches!(&text[..*at], "b" | "c"))? + 1;
    let hashes = text[start..].bytes().take_while(|byte| *byte == b'#').count();
    let inside = text[start + hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(inside.find(&end).map_or(text.len(), |at| text.len() - inside.len() + at + end.len()))
}

/// The length of a character in its marks, where one begins here; a lifetime is none.
fn character(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('\'')?;
    let mut chars = inside.char_indices();
    match chars.next()? {
        (_, '\\') => {
            let end = inside.char_indices().skip(2).find(|(_, c)| *c == '\'')?.0;
            Some(end + 2)
        }
        _ => chars.next().filter(|(_, c)| *c == '\'').map(|(at, _)| at + 2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_characters_are_blanked_and_the_rest_is_kept() {
        let text = "a(\"x // y\\\"\"); // todo\n/* b /* c */ d */ e('\"', '\\'', b'\"'); fn f<'a>(x: &'a str) {}\n\
                    let s = r#\"crate::x \" y\"#; let br = 1; g(br\"z\");";
        let code = strip(text);
        assert_eq!(code.lines().count(), text.lines().count());
        for word in ["todo", "x", "b /*", " c ", " d ", "crate", "z"] {
            assert!(!code.replace("x: &", "").contains(word), "{word}: {code}");
        }
        for word in ["a(", "e(", "fn f<'a>(x: &'a str) {}", "let s = ", "let br = 1;", "g("] {
            assert!(code.contains(word), "{word}: {code}");
        }
    }

    #[test]
    fn lines_are_counted_without_comments_blanks_and_tests() {
        let text =
            "//! doc\n\nuse a;\n/// b\nfn c() {}\n#[cfg(test)]\nuse d;\n#[cfg(test)]\nmod tests {\n}\n";
        assert_eq!(Source::new("a.rs", text).code_lines(), 4);
    }

    #[test]
    fn a_breach_knows_its_line() {
        let source = Source::new("a.rs", "one\ntwo\n");
        assert_eq!(source.breach(Some(4), "x").to_string(), "a.rs:2: x");
    }
}
