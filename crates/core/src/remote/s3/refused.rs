//! What S3 says when it refuses: an XML document, or a header or two where there is no body.

use crate::error::{Error, ErrorKind};
use crate::remote::refusal::{self, Words, shown};
use crate::remote::request::Answer;

/// What was said, and what can be learned from it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said {
    /// Code, message, request.
    pub words: Words,
    /// The region that the bucket is in.
    pub region: Option<String>,
    /// When a presigned link ended.
    pub expired: Option<String>,
}

/// Reads an answer; whatever is not there, or not readable, is left out.
#[must_use]
pub fn read(answer: &Answer) -> Said {
    let body = String::from_utf8_lossy(&answer.body);
    // A page for people (a proxy's, a load balancer's) is not the service's answer.
    let body = if body.contains("<Error") { body.as_ref() } else { "" };
    let id = answer.header("x-amz-request-id").and_then(shown);
    let region = answer.header("x-amz-bucket-region").and_then(shown).or_else(|| element(body, "Region"));
    let is_region = |text: &String| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    Said {
        words: Words {
            code: element(body, "Code"),
            message: element(body, "Message"),
            request_id: id.or_else(|| element(body, "RequestId")),
        },
        region: region.filter(is_region),
        expired: element(body, "Expires"),
    }
}

/// What a refusal means where the request was a plain link, perhaps one that carries a signature.
#[must_use]
pub fn of_link(answer: &Answer, subject: &str) -> Error {
    let said = read(answer);
    let code = said.words.code.as_deref().unwrap_or_default();
    let message = said.words.message.as_deref().unwrap_or_default();
    let of = |kind, advice: &str| refusal::of_kind(kind, answer, &said.words, advice, subject);
    let is_expired = message.to_ascii_lowercase().contains("expired");
    match code {
        "ExpiredToken" => {
            of(ErrorKind::Credentials, "the credentials that signed this link have expired: make a new link")
        }
        "AccessDenied" if is_expired => {
            let when = said.expired.as_ref().map(|when| format!(" on {when}")).unwrap_or_default();
            of(ErrorKind::Credentials, &format!("this presigned link expired{when}: make a new one"))
        }
        "SignatureDoesNotMatch" | "InvalidAccessKeyId" => {
            of(ErrorKind::Credentials, "the link's signature is not good: it may have been cut or changed")
        }
        "NoSuchKey" | "NoSuchBucket" => of(ErrorKind::NotFound, ""),
        _ => refusal::explain(answer, &said.words, subject),
    }
}

/// The text of the first `<name>`; `None` where it is cut off, empty, or holds other elements.
fn element(body: &str, name: &str) -> Option<String> {
    let open = format!("<{name}>");
    let start = body.find(&open)? + open.len();
    let (text, rest) = body.get(start..)?.split_once('<')?;
    rest.strip_prefix('/')?.strip_prefix(name)?;
    shown(&unescape(text))
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let entity = after.split_once(';').and_then(|(name, left)| Some((character(name)?, left)));
        rest = match entity {
            Some((character, left)) => {
                out.push(character);
                left
            }
            None => {
                out.push('&');
                after
            }
        };
    }
    out.push_str(rest);
    out
}

fn character(entity: &str) -> Option<char> {
    match entity {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = entity.strip_prefix('#')?;
            let code = match number.strip_prefix('x') {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn answer(body: &[u8]) -> Answer {
        Answer { status: 403, headers: Vec::new(), body: body.to_vec() }
    }

    #[test]
    fn code_message_request_and_region_are_read() {
        let body = b"<?xml version=\"1.0\"?>\n<Error><Code>NoSuchKey</Code><Message>a &lt;b&gt;\n &#x26;c &amp; &bogus; \
            d</Message><Region>eu-west-1</Region><RequestId>42</RequestId></Error>";
        let said = read(&answer(body));
        assert_eq!(said.words.code.as_deref(), Some("NoSuchKey"));
        assert_eq!(said.words.message.as_deref(), Some("a <b> &c & &bogus; d"));
        assert_eq!(said.words.request_id.as_deref(), Some("42"));
        assert_eq!(said.region.as_deref(), Some("eu-west-1"));
    }

    #[test]
    fn headers_speak_where_there_is_no_body() {
        let mut answer = answer(b"");
        answer.headers.push(("x-amz-bucket-region".to_owned(), b"us-west-2".to_vec()));
        answer.headers.push(("x-amz-request-id".to_owned(), b"7".to_vec()));
        let said = read(&answer);
        assert_eq!(
            (said.region.as_deref(), said.words.request_id.as_deref()),
            (Some("us-west-2"), Some("7"))
        );
    }

    #[test]
    fn what_is_cut_off_or_no_answer_of_s3_says_nothing() {
        for body in [
            &b"<Error><Code>NoSuchK"[..],
            b"<Error><Code></Code>",
            b"<Error><Code><b>x</b></Code></Error>",
            b"<html><Code>x</Code></html>",
            b"\xff\xfe",
            b"<Error><Region>evil.example/</Region></Error>",
        ] {
            assert_eq!(read(&answer(body)), Said::default(), "{}", String::from_utf8_lossy(body));
        }
    }

    proptest! {
        #[test]
        fn no_body_makes_it_panic(body: Vec<u8>, text in "[<>/&;#xCodeError]{0,40}") {
            let _ = read(&answer(&body));
            let _ = read(&answer(format!("<Error><Code>{text}").as_bytes()));
        }
    }
}
