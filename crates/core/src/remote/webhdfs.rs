//! A file of Hadoop's file system, over its HTTP interface.
//!
//! A range is part of the address (`offset`, `length`), so an answer is `200` and proves itself by its length only.

use std::ops::Range;
use std::time::SystemTime;

use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::remote::endpoint::{Endpoint, Proof, Refusal};
use crate::remote::escape;
use crate::remote::refusal::{self, Words, shown};
use crate::remote::request::{Answer, Header, Method, Origin, Request};
use crate::remote::secret::Secret;
use crate::remote::url::Url;

const ROOT: &str = "/webhdfs/v1";
/// What a query may say beside the operation: who asks, and in whose name. All else is dropped.
const KEPT: [&str; 3] = ["user.name", "doas", "delegation"];

/// A file in HDFS.
#[derive(Debug)]
pub struct WebHdfsFile {
    subject: String,
    origin: Origin,
    path: String,
    /// `user.name=…&`, or more; a token may be in it.
    who: Secret,
    authorization: Option<Header>,
}

impl WebHdfsFile {
    /// The file at `url`, with or without `/webhdfs/v1` before its path. `user` is who asks where the URL does not say.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidUrl`] where it is no http(s) URL.
    pub fn open(url: &str, user: Option<&str>) -> Result<Self> {
        let url = Url::parse(url)?;
        let origin = url.origin()?;
        let has_root = url.path().get(..ROOT.len()).is_some_and(|start| start.eq_ignore_ascii_case(ROOT))
            && matches!(url.path().as_bytes().get(ROOT.len()), None | Some(b'/'));
        let root = if has_root { "" } else { ROOT };
        let path = format!("{root}{}", escape::for_wire(url.path()));
        let subject = format!("{}://{origin}{root}{}", origin.scheme.as_str(), url.path());
        let who = Secret::new(who(url.query().unwrap_or_default(), user));
        Ok(Self { subject, origin, path, who, authorization: url.authorization() })
    }

    fn request(&self, operation: &str) -> Request {
        let target = format!("{}?{}op={operation}", self.path, self.who.reveal());
        let mut request = Request::new(Method::Get, self.origin.clone(), target);
        request.headers.extend(self.authorization.clone());
        request
    }
}

/// The beginning of each query: `user.name` and what else of the URL's is kept.
fn who(query: &str, user: Option<&str>) -> String {
    let name = |pair: &str| pair.split('=').next().unwrap_or_default().to_owned();
    let kept = query.split('&').filter(|pair| KEPT.contains(&name(pair).as_str()));
    let mut who: String = kept.map(|pair| format!("{}&", escape::for_wire(pair))).collect();
    if let Some(user) = user
        // A token says itself who asks.
        && !query.split('&').any(|pair| matches!(name(pair).as_str(), "user.name" | "delegation"))
    {
        who.push_str(&format!("user.name={}&", escape::component(user.as_bytes())));
    }
    who
}

impl Endpoint for WebHdfsFile {
    fn subject(&self) -> String {
        self.subject.clone()
    }

    fn probes(&self, _now: SystemTime) -> Result<Vec<Request>> {
        Ok(vec![self.request("GETFILESTATUS")])
    }

    fn size(&self, _probe: &Request, answer: &Answer) -> Result<Option<u64>> {
        let fail = |kind, words: &str| Err(Error::new(kind, "open", words).on(&self.subject));
        if answer.status != 200 {
            let error = fail(ErrorKind::Unverified, "HTTP response is not successful.");
            return error.map_err(|error| error.with_status(answer.status));
        }
        let status: Option<Value> = serde_json::from_slice(&answer.body).ok();
        let status = status.as_ref().and_then(|value| value.get("FileStatus"));
        if status.and_then(|status| status.get("type")).and_then(Value::as_str) == Some("DIRECTORY") {
            return fail(ErrorKind::IsADirectory, "it is a directory");
        }
        let told = status.and_then(|status| status.get("length")).and_then(Value::as_u64);
        match told.or_else(|| written_length(&String::from_utf8_lossy(&answer.body))) {
            Some(size) => Ok(Some(size)),
            None => fail(
                ErrorKind::Unverified,
                "Regular expression search failed. Cannot extract file length from the JSON response.",
            ),
        }
    }

    fn range(&self, range: Range<u64>, _now: SystemTime) -> Result<Request> {
        let length = range.end.saturating_sub(range.start);
        Ok(self.request(&format!("OPEN&offset={}&length={length}", range.start)))
    }

    fn proof(&self) -> Proof {
        Proof::Length
    }

    fn refused(&self, answer: &Answer) -> Refusal {
        let said = exception(&answer.body);
        let (code, message) =
            (said.code.as_deref().unwrap_or_default(), said.message.as_deref().unwrap_or_default());
        let of = |kind| refusal::of_kind(kind, answer, &said, "", &self.subject);
        Refusal::Final(match code {
            "FileNotFoundException" => of(ErrorKind::NotFound),
            "AccessControlException" | "SecurityException" => of(ErrorKind::PermissionDenied),
            // Hadoop's words for an offset past the end, with the status 403.
            "IOException" if message.contains("out of the range") => of(ErrorKind::UnexpectedEof),
            "StandbyException" | "RetriableException" | "SafeModeException" => {
                of(ErrorKind::Refused).retryable()
            }
            "" => refusal::explain(answer, &said, &self.subject),
            _ => of(ErrorKind::Refused),
        })
    }
}

/// The number after `"length":`, as upstream looks for it: in whatever text, with something after the digits.
fn written_length(body: &str) -> Option<u64> {
    let mut rest = body;
    while let Some((_, after)) = rest.split_once("\"length\"") {
        rest = after;
        let Some(value) = after.trim_start().strip_prefix(':') else { continue };
        let value = value.trim_start();
        let end = value.find(|c: char| !c.is_ascii_digit())?;
        if let Some(size) = value.get(..end).and_then(|digits| digits.parse().ok()) {
            return Some(size);
        }
    }
    None
}

/// Hadoop's `RemoteException`; nothing where the body is none.
fn exception(body: &[u8]) -> Words {
    let Ok(value) = serde_json::from_slice::<Value>(body) else { return Words::default() };
    let text = |name: &str| value.get("RemoteException")?.get(name)?.as_str().and_then(shown);
    Words { code: text("exception"), message: text("message"), request_id: None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        Answer { status, headers: Vec::new(), body: body.as_bytes().to_vec() }
    }

    fn targets(url: &str, user: Option<&str>) -> [String; 2] {
        let file = WebHdfsFile::open(url, user).unwrap();
        let now = SystemTime::now();
        [file.probes(now).unwrap()[0].target.clone(), file.range(7..10, now).unwrap().target]
    }

    #[test]
    fn operations_are_asked_for_in_the_query() {
        for (url, user, before) in [
            ("http://h:9870/webhdfs/v1/f", None, "/webhdfs/v1/f?"),
            ("http://h:9870/path/to/f", None, "/webhdfs/v1/path/to/f?"),
            ("http://h:9870/webhdfs/v1x", None, "/webhdfs/v1/webhdfs/v1x?"),
            ("http://h:9870/WebHDFS/v1/f?op=OPEN&offset=9#x", None, "/WebHDFS/v1/f?"),
            ("http://h/f?a=b&user.name=me%20&c", Some("env"), "/webhdfs/v1/f?user.name=me%20&"),
            ("http://h/f?user.name=", Some("env"), "/webhdfs/v1/f?user.name=&"),
            ("http://h/f", Some("e&v"), "/webhdfs/v1/f?user.name=e%26v&"),
            ("http://h/f", Some(""), "/webhdfs/v1/f?user.name=&"),
            ("http://h/a b%20c+ü", None, "/webhdfs/v1/a%20b%20c+%C3%BC?"),
        ] {
            let expected =
                [format!("{before}op=GETFILESTATUS"), format!("{before}op=OPEN&offset=7&length=3")];
            assert_eq!(targets(url, user), expected, "{url}");
        }
    }

    #[test]
    fn a_delegation_token_is_sent_and_does_not_print() {
        let file =
            WebHdfsFile::open("http://u:planted@h/f?delegation=planted&x=planted", Some("env")).unwrap();
        let request = file.range(0..1, SystemTime::now()).unwrap();
        assert!(request.target.contains("?delegation=planted&op=OPEN"));
        let shown = format!("{file:?} {request:?} {}", file.subject());
        assert!(!shown.contains("planted"), "{shown}");
    }

    #[test]
    fn the_length_is_read_or_the_answer_refused() {
        let file = WebHdfsFile::open("http://h/f", None).unwrap();
        let probe = &file.probes(SystemTime::now()).unwrap()[0];
        let size = |status, body: &str| file.size(probe, &answer(status, body));
        assert_eq!(size(200, r#"{"FileStatus":{"type":"FILE","length":24930}}"#).unwrap(), Some(24930));
        assert_eq!(size(200, r#"{"FileStatus" : {"length" :  0 , "x""#).unwrap(), Some(0));
        assert_eq!(size(200, r#"{"a":"\"length\"","length": 7}"#).unwrap(), Some(7));
        let text = "Regular expression search failed. Cannot extract file length from the JSON response.";
        for body in ["", "{}", r#"{"length":"#, r#"{"length":12"#, r#"{"length":-1}"#, r#"{"lengthy":1}"#] {
            assert_eq!(size(200, body).unwrap_err().message(), text, "{body}");
        }
        let error = size(200, r#"{"FileStatus":{"type":"DIRECTORY","length":0}}"#).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IsADirectory);
        assert_eq!(size(201, "{}").unwrap_err().message(), "HTTP response is not successful.");
    }

    #[test]
    fn hadoop_s_exceptions_become_kinds() {
        let file = WebHdfsFile::open("http://h/f", None).unwrap();
        for (status, exception, message, kind) in [
            (404, "FileNotFoundException", "File does not exist: /f", ErrorKind::NotFound),
            (403, "AccessControlException", "Permission denied: user=x", ErrorKind::PermissionDenied),
            (403, "IOException", "Offset=10 out of the range [0, 10)", ErrorKind::UnexpectedEof),
            (403, "StandbyException", "READ is not supported in state standby", ErrorKind::Refused),
            (400, "IllegalArgumentException", "Invalid value for length", ErrorKind::Refused),
        ] {
            let body =
                format!(r#"{{"RemoteException":{{"exception":"{exception}","message":"{message}"}}}}"#);
            let Refusal::Final(error) = file.refused(&answer(status, &body)) else { panic!("not final") };
            assert_eq!(error.kind(), kind);
            let text = format!("The requested URL returned error: {status} ({exception}: {message})");
            assert_eq!(error.message(), text);
            assert_eq!(error.is_retryable(), exception == "StandbyException");
        }
        let Refusal::Final(error) = file.refused(&answer(404, "<html>")) else { panic!("not final") };
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }

    proptest! {
        #[test]
        fn no_body_makes_it_panic(body in "[\"length:0-9{} ]{0,40}", bytes: Vec<u8>) {
            let _ = written_length(&body);
            let _ = exception(&bytes);
        }
    }
}
