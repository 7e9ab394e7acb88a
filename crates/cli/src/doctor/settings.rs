//! Every setting with its value, and whether it was set or chosen.

use kvikio::{Environment, LocalIo, Options, SETTINGS, Setting, Value};
use serde_json::json;

use crate::doctor::report::Section;

/// Each setting is read for itself, so that one malformed variable hides no other.
pub fn examine() -> Section {
    let mut section = Section::new("settings");
    let mut list = Vec::new();
    for setting in &SETTINGS {
        let only_this = |name: &str| {
            let text = setting.env.contains(&name).then(|| Environment::process().get(name)).flatten();
            text.map(Into::into)
        };
        let read = Options::from(&Environment::of(only_this));
        if let Err(error) = &read {
            section.problem(format!("{}: {}", setting.name, error.message()), advice(setting));
        }
        let is_malformed = read.is_err();
        let options = read.unwrap_or_default();
        let value = options.get(setting.key);
        let is_set = options.is_set(setting.key);
        if !is_malformed {
            let origin = if is_set { "set" } else { "chosen" };
            section.ok(format!("{} = {} ({origin})", setting.name, text(&value)));
        }
        list.push(json!({
            "name": setting.name,
            "value": to_json(&value),
            "set": is_set,
            "malformed": is_malformed,
            "environment": setting.env,
            "meaning": setting.doc,
        }));
    }
    section.fact("list", list);
    section
}

fn advice(setting: &Setting) -> String {
    format!("unset or correct {}: {}", setting.env.join(" or "), setting.doc)
}

fn to_json(value: &Value) -> serde_json::Value {
    match value {
        Value::Bool(switch) => json!(switch),
        Value::Int(number) => json!(number),
        Value::Codes(codes) => json!(codes),
        Value::Choice(word) => json!(word),
        // The words of Python and the environment.
        Value::LocalIo(LocalIo::Auto) => json!("AUTO"),
        Value::LocalIo(LocalIo::CuFile) => json!("OFF"),
        Value::LocalIo(LocalIo::Posix) => json!("ON"),
    }
}

fn text(value: &Value) -> String {
    match to_json(value) {
        serde_json::Value::String(word) => word,
        serde_json::Value::Array(list) => list.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_in_the_words_of_the_environment() {
        assert_eq!(text(&Value::LocalIo(LocalIo::CuFile)), "OFF");
        assert_eq!(text(&Value::Codes(vec![429, 500])), "429, 500");
        assert_eq!(text(&Value::Bool(true)), "true");
        assert_eq!(text(&Value::Int(7)), "7");
    }
}
