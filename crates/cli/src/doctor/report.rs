//! Findings, the sections they are in, and the report for people and for programs.

use std::fmt::Write;

use serde_json::{Map, Value, json};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing; the work goes on without.
    Note,
    /// Something does not work.
    Problem,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Problem => "problem",
        }
    }
}

/// One thing found.
#[derive(Debug)]
pub struct Finding {
    pub level: Level,
    pub text: String,
    /// What to do about it.
    pub advice: Option<String>,
}

/// What was found about one subject: facts for programs, findings for people and programs.
#[derive(Debug)]
pub struct Section {
    pub name: &'static str,
    pub facts: Map<String, Value>,
    pub findings: Vec<Finding>,
}

impl Section {
    pub fn new(name: &'static str) -> Self {
        Self { name, facts: Map::new(), findings: Vec::new() }
    }

    pub fn fact(&mut self, key: &str, value: impl Into<Value>) {
        self.facts.insert(key.to_owned(), value.into());
    }

    pub fn ok(&mut self, text: impl Into<String>) {
        self.findings.push(Finding { level: Level::Ok, text: text.into(), advice: None });
    }

    pub fn note(&mut self, text: impl Into<String>, advice: impl Into<String>) {
        self.push(Level::Note, text.into(), advice.into());
    }

    pub fn problem(&mut self, text: impl Into<String>, advice: impl Into<String>) {
        self.push(Level::Problem, text.into(), advice.into());
    }

    fn push(&mut self, level: Level, text: String, advice: String) {
        self.findings.push(Finding { level, text, advice: (!advice.is_empty()).then_some(advice) });
    }

    fn to_value(&self) -> Value {
        let finding = |finding: &Finding| json!({"level": finding.level.word(), "text": finding.text, "advice": finding.advice});
        let mut object = self.facts.clone();
        object.insert("findings".to_owned(), self.findings.iter().map(finding).collect());
        Value::Object(object)
    }
}

/// Everything that was found.
#[derive(Debug)]
pub struct Report {
    pub sections: Vec<Section>,
    pub has_gpu: bool,
}

impl Report {
    fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.sections.iter().flat_map(|section| &section.findings)
    }

    pub fn problems(&self) -> usize {
        self.findings().filter(|finding| finding.level == Level::Problem).count()
    }

    pub fn to_text(&self) -> String {
        let mut text = format!("kvikio {}\n", env!("CARGO_PKG_VERSION"));
        // Writing to a string does not fail.
        for section in self.sections.iter().filter(|section| !section.findings.is_empty()) {
            let _ = writeln!(text, "\n{}", section.name);
            for finding in &section.findings {
                let _ = writeln!(text, "  {:<8} {}", finding.level.word(), finding.text);
                if let Some(advice) = &finding.advice {
                    let _ = writeln!(text, "           -> {advice}");
                }
            }
        }
        let can = match self.has_gpu {
            true => "host memory and GPU memory can be read into and written from",
            false => "host memory can be read into and written from; GPU memory cannot",
        };
        let _ = match self.problems() {
            0 => writeln!(text, "\nNo problem: {can}."),
            1 => writeln!(text, "\n1 problem: see above."),
            count => writeln!(text, "\n{count} problems: see above."),
        };
        text
    }

    /// One JSON object; `docs/cli.md` describes it.
    pub fn to_json(&self) -> String {
        let verdict = self.findings().map(|finding| finding.level).max().unwrap_or(Level::Ok);
        let mut object = Map::new();
        object.insert("kvikio".to_owned(), env!("CARGO_PKG_VERSION").into());
        object.insert("verdict".to_owned(), verdict.word().into());
        object.insert("problems".to_owned(), self.problems().into());
        object.insert("gpu".to_owned(), self.has_gpu.into());
        for section in &self.sections {
            object.insert(section.name.to_owned(), section.to_value());
        }
        format!("{:#}\n", Value::Object(object))
    }
}

/// The words for a list in a sentence: `a, b and c`.
pub fn listed(words: &[String]) -> String {
    match words {
        [] => "none".to_owned(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_is_the_worst_finding() {
        let mut section = Section::new("driver");
        section.ok("fine");
        section.note("so so", "");
        let mut report = Report { sections: vec![section], has_gpu: false };
        assert_eq!(serde_json::from_str::<Value>(&report.to_json()).unwrap()["verdict"], "note");
        report.sections[0].problem("bad", "mend it");
        let value: Value = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(value["verdict"], "problem");
        assert_eq!(value["driver"]["findings"][2]["advice"], "mend it");
        assert_eq!(value["driver"]["findings"][1]["advice"], Value::Null);
        assert!(report.to_text().contains("-> mend it"));
        assert!(report.to_text().ends_with("1 problem: see above.\n"));
    }

    #[test]
    fn lists_read_well() {
        let words = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(listed(&words), "a, b and c");
        assert_eq!(listed(&words[..1]), "a");
        assert_eq!(listed(&[]), "none");
    }
}
