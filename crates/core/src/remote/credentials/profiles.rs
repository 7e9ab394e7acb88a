//! AWS's two shared files: `config` and `credentials`, with their profiles.

use std::collections::BTreeMap;
use std::io::ErrorKind as IoKind;

use crate::error::{Error, ErrorKind, Result};
use crate::remote::credentials::variables::Variables;

/// The largest file that is read.
const LONGEST: usize = 1 << 20;

type Section = BTreeMap<String, String>;
type Sections = BTreeMap<String, Section>;

/// What the two files say.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Profiles {
    /// By profile; settings of `credentials` go before those of `config`.
    profiles: Sections,
    /// Of `[sso-session NAME]`.
    sessions: Sections,
    /// The files that were looked for, for messages.
    looked_in: Vec<String>,
}

impl Profiles {
    /// Reads both files; one that is not there says nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Credentials`] where a file is there and cannot be read.
    pub fn read(variables: &Variables) -> Result<Self> {
        let mut all = Self::default();
        let files =
            [("AWS_CONFIG_FILE", "~/.aws/config"), ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")];
        for (variable, usual) in files {
            let path = variables.expand(variables.get(variable).unwrap_or(usual));
            let text = match std::fs::read(&path) {
                Ok(bytes) if bytes.len() <= LONGEST => String::from_utf8_lossy(&bytes).into_owned(),
                Ok(_) => return Err(unreadable(&path, "it is larger than 1 MiB")),
                Err(error) if matches!(error.kind(), IoKind::NotFound | IoKind::NotADirectory) => {
                    String::new()
                }
                Err(error) => return Err(unreadable(&path, &error.to_string())),
            };
            all.add(&text, variable == "AWS_CONFIG_FILE");
            all.looked_in.push(path);
        }
        Ok(all)
    }

    fn add(&mut self, text: &str, is_config: bool) {
        let mut section: Option<&mut Section> = None;
        for line in text.lines() {
            let trimmed = line.trim();
            if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
                continue;
            }
            if let Some(name) = trimmed.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
                section = self.section(name, is_config);
                continue;
            }
            // Indented lines belong to a group such as `s3 =`, which is not ours.
            let is_indented = line.starts_with([' ', '\t']);
            let (Some(section), Some((name, value))) = (section.as_deref_mut(), trimmed.split_once('='))
            else {
                continue;
            };
            if !is_indented {
                section.insert(name.trim().to_ascii_lowercase(), without_comment(value).to_owned());
            }
        }
    }

    /// Where the settings under a heading go; `None` for a heading that is not ours.
    fn section(&mut self, heading: &str, is_config: bool) -> Option<&mut Section> {
        let words: Vec<&str> = heading.split_whitespace().collect();
        match (words.as_slice(), is_config) {
            (["profile", name @ ..], _) if !name.is_empty() => {
                Some(entry(&mut self.profiles, &name.join(" ")))
            }
            (["sso-session", name @ ..], true) if !name.is_empty() => {
                Some(entry(&mut self.sessions, &name.join(" ")))
            }
            (["default"], true) => Some(entry(&mut self.profiles, "default")),
            ([_, ..], false) => Some(entry(&mut self.profiles, &words.join(" "))),
            _ => None,
        }
    }

    /// A setting of a profile, where it is there and not empty.
    #[must_use]
    pub fn get(&self, profile: &str, name: &str) -> Option<&str> {
        self.profiles.get(profile)?.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A setting of an SSO session.
    #[must_use]
    pub fn of_session(&self, session: &str, name: &str) -> Option<&str> {
        self.sessions.get(session)?.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Whether there is such a profile.
    #[must_use]
    pub fn has(&self, profile: &str) -> bool {
        self.profiles.contains_key(profile)
    }

    /// The files that were looked for, for messages.
    #[must_use]
    pub fn files(&self) -> String {
        self.looked_in.join(" and ")
    }
}

fn entry<'a>(sections: &'a mut Sections, name: &str) -> &'a mut Section {
    sections.entry(name.trim_matches(['"', '\'']).to_owned()).or_default()
}

/// A value without the comment after it: a mark that stands after a blank.
fn without_comment(value: &str) -> &str {
    let end = [" #", " ;", "\t#", "\t;"].iter().filter_map(|mark| value.find(mark)).min();
    value.get(..end.unwrap_or(value.len())).unwrap_or(value).trim()
}

fn unreadable(path: &str, words: &str) -> Error {
    Error::new(ErrorKind::Credentials, "read credentials", words).on(path)
}

impl std::fmt::Debug for Profiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.profiles.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_files_are_read_and_credentials_go_first() {
        let mut all = Profiles::default();
        all.add(
            "[default]\nregion = r-1 # mine\n[profile two]\nAWS_Access_Key_Id=config\ns3 =\n  region = no\n\
             role_arn=x\n[sso-session s]\nsso_region = r-2\n[services x]\nrole_arn=no\n[ignored]\nregion=no",
            true,
        );
        all.add(
            "[two]\naws_access_key_id = planted\naws_secret_access_key = a#b;c=d=\n; note\n[ignored]",
            false,
        );
        assert_eq!(all.get("default", "region"), Some("r-1"));
        assert_eq!(all.get("two", "aws_access_key_id"), Some("planted"));
        assert_eq!(all.get("two", "aws_secret_access_key"), Some("a#b;c=d="));
        assert_eq!(all.get("two", "region"), None);
        assert_eq!(all.get("two", "role_arn"), Some("x"));
        assert_eq!(all.of_session("s", "sso_region"), Some("r-2"));
        assert!(all.has("ignored") && all.get("ignored", "region").is_none() && !all.has("x"));
        assert!(!format!("{all:?}").contains("planted"));
    }

    #[test]
    fn a_file_that_is_not_there_says_nothing_and_one_that_is_no_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().to_str().unwrap();
        let none = Profiles::read(&Variables::of(&[("HOME", folder)])).unwrap();
        assert_eq!(none.files(), format!("{folder}/.aws/config and {folder}/.aws/credentials"));
        let error = Profiles::read(&Variables::of(&[("AWS_CONFIG_FILE", folder)])).unwrap_err();
        assert_eq!((error.kind(), error.subject()), (ErrorKind::Credentials, Some(folder)));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[\\[\\]=#; \\n\\taé]{0,60}") {
            let mut all = Profiles::default();
            all.add(&text, true);
            all.add(&text, false);
        }
    }
}
