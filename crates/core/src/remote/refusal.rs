//! What a status means, whatever the service: the kinds and words that all endpoints share.

use crate::error::{Error, ErrorKind};
use crate::remote::request::Answer;

/// What a service says about its refusal, in its own words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words {
    /// A word for programs: `NoSuchKey`, `FileNotFoundException`.
    pub code: Option<String>,
    /// A sentence for people.
    pub message: Option<String>,
    /// What the service's staff will ask for.
    pub request_id: Option<String>,
}

/// The most of a service's sentence that is shown.
const LONGEST_MESSAGE: usize = 300;

/// The error for a status of 400 or above (or a redirect to nowhere), of the kind that the status alone says.
#[must_use]
pub fn explain(answer: &Answer, words: &Words, subject: &str) -> Error {
    of_kind(kind(answer.status), answer, words, "", subject)
}

/// The error for a refusal that is known to be of `kind`; `advice` says what to do about it.
#[must_use]
pub fn of_kind(kind: ErrorKind, answer: &Answer, words: &Words, advice: &str, subject: &str) -> Error {
    let mut text = format!("The requested URL returned error: {}", answer.status);
    let said: Vec<&str> = [&words.code, &words.message].into_iter().flatten().map(String::as_str).collect();
    if !said.is_empty() {
        text.push_str(&format!(" ({})", said.join(": ")));
    }
    if !advice.is_empty() {
        text.push_str(": ");
        text.push_str(advice);
    }
    if let Some(id) = &words.request_id {
        text.push_str(&format!(" [request {id}]"));
    }
    let error = Error::new(kind, "read", text).on(subject).with_status(answer.status);
    let can_pass = matches!(answer.status, 408 | 425 | 429 | 500 | 502 | 503 | 504);
    if can_pass { error.retryable() } else { error }
}

fn kind(status: u16) -> ErrorKind {
    match status {
        401 | 403 | 407 => ErrorKind::PermissionDenied,
        404 | 410 => ErrorKind::NotFound,
        408 | 504 => ErrorKind::TimedOut,
        412 => ErrorKind::Changed,
        416 => ErrorKind::UnexpectedEof,
        _ => ErrorKind::Refused,
    }
}

/// Makes what a server sent fit for one line of a message.
#[must_use]
pub fn shown(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line: String = words.join(" ").chars().filter(|c| !c.is_control()).take(LONGEST_MESSAGE).collect();
    (!line.is_empty()).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_says_the_status_and_what_the_service_said() {
        let words = Words {
            code: Some("NoSuchKey".to_owned()),
            message: shown(" The key\n\tis not\x1b there "),
            request_id: Some("7".to_owned()),
        };
        for (status, kind, is_retryable) in [
            (400, ErrorKind::Refused, false),
            (401, ErrorKind::PermissionDenied, false),
            (403, ErrorKind::PermissionDenied, false),
            (404, ErrorKind::NotFound, false),
            (412, ErrorKind::Changed, false),
            (416, ErrorKind::UnexpectedEof, false),
            (503, ErrorKind::Refused, true),
        ] {
            let answer = Answer { status, headers: Vec::new(), body: Vec::new() };
            let error = explain(&answer, &words, "s3://b/k");
            assert_eq!((error.kind(), error.status()), (kind, Some(status)));
            assert_eq!(error.is_retryable(), is_retryable, "{status}");
            let text = format!(
                "The requested URL returned error: {status} (NoSuchKey: The key is not there) [request 7]"
            );
            assert_eq!(error.message(), text);
        }
        assert_eq!(shown(" \n "), None);
    }
}
