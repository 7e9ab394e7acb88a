//! The head of a message: a request as bytes, and bytes as the head of an answer with what they say about the body.

use std::fmt;

use crate::error::{Error, ErrorKind, Result};
use crate::remote::request::{Answer, Header, Method, Request};

/// The most bytes of an answer's head; a server that sends more is not understood.
pub const MOST_HEAD: usize = 64 << 10;
/// The most header lines of an answer.
const MOST_HEADERS: usize = 128;
const AGENT: &str = concat!("kvikio-rs/", env!("CARGO_PKG_VERSION"));

/// The head of an answer.
#[derive(Clone, PartialEq, Eq)]
pub struct Head {
    /// The HTTP status.
    pub status: u16,
    /// Names in lower case, values as they came; in the server's order.
    pub headers: Vec<(String, Vec<u8>)>,
    /// 1 for HTTP/1.1, 0 for HTTP/1.0.
    pub minor: u8,
}

/// Where the body of an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is none.
    Empty,
    /// After so many bytes.
    Length(u64),
    /// Where its chunks say so.
    Chunked,
    /// Where the connection ends, so that a cut body looks like a whole one.
    UntilClose,
}

/// The bytes of `request` and its body, with `extra` headers after its own; for a proxy the target is a whole URL.
///
/// What every request carries (`host`, `accept`, `accept-encoding`, `user-agent`) is added where neither names it.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] where a part of the request would break its line.
pub fn encode(request: &Request, extra: &[Header], through_proxy: bool) -> Result<Vec<u8>> {
    let target = &request.target;
    if !target.starts_with('/') || target.bytes().any(|byte| byte <= b' ' || byte == 0x7F) {
        return Err(invalid("the path cannot stand in a request line"));
    }
    let host = request.origin.to_string();
    let mut bytes = Vec::with_capacity(512 + target.len() + request.body.len());
    bytes.extend_from_slice(request.method.as_str().as_bytes());
    bytes.push(b' ');
    if through_proxy {
        bytes.extend_from_slice(request.origin.scheme.as_str().as_bytes());
        bytes.extend_from_slice(b"://");
        bytes.extend_from_slice(host.as_bytes());
    }
    bytes.extend_from_slice(target.as_bytes());
    bytes.extend_from_slice(b" HTTP/1.1\r\n");
    let named = |name: &str| request.headers.iter().chain(extra).any(|header| header.name == name);
    for (name, value) in
        [("host", host.as_str()), ("accept", "*/*"), ("accept-encoding", "identity"), ("user-agent", AGENT)]
    {
        if !named(name) {
            line(&mut bytes, name, value)?;
        }
    }
    for header in request.headers.iter().chain(extra) {
        if header.name != "content-length" {
            line(&mut bytes, &header.name, &header.value)?;
        }
    }
    if !request.body.is_empty() || matches!(request.method, Method::Post | Method::Put) {
        line(&mut bytes, "content-length", &request.body.len().to_string())?;
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(&request.body);
    Ok(bytes)
}

/// Adds one header line. A refusal names the header, never its value, which may be a secret.
pub(super) fn line(bytes: &mut Vec<u8>, name: &str, value: &str) -> Result<()> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(invalid("a header's name is not a word"));
    }
    if value.bytes().any(|byte| (byte < b' ' && byte != b'\t') || byte == 0x7F) {
        return Err(invalid(format!(
            "the value of the header {name} holds a line break or a control character"
        )));
    }
    for part in [name, ": ", value, "\r\n"] {
        bytes.extend_from_slice(part.as_bytes());
    }
    Ok(())
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidInput, "send", message)
}

/// The head at the start of `buf` and its length in bytes; `None` where it is not whole yet.
///
/// # Errors
/// [`ErrorKind::Unverified`] where the bytes are not the head of an HTTP/1 answer, or it is too long.
pub fn parse(buf: &[u8]) -> Result<Option<(Head, usize)>> {
    let mut lines = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut answer = httparse::Response::new(&mut lines);
    match answer.parse(buf) {
        Ok(httparse::Status::Complete(len)) if len <= MOST_HEAD => {
            let headers = answer.headers.iter();
            let headers =
                headers.map(|header| (header.name.to_ascii_lowercase(), header.value.to_vec())).collect();
            let status = answer.code.unwrap_or_default();
            Ok(Some((Head { status, headers, minor: answer.version.unwrap_or_default() }, len)))
        }
        Ok(httparse::Status::Partial) if buf.len() < MOST_HEAD => Ok(None),
        Ok(_) => Err(broken(format!("the head of the server's answer is longer than {MOST_HEAD} bytes"))),
        Err(httparse::Error::TooManyHeaders) => {
            Err(broken(format!("the server's answer has more than {MOST_HEADERS} headers")))
        }
        Err(httparse::Error::Version | httparse::Error::Status) => Err(broken(
            "the server's answer is not HTTP/1: is this the right port, and the right scheme (http or https)?",
        )),
        Err(error) => Err(broken(format!("the server's answer is not HTTP/1 ({error})"))),
    }
}

fn broken(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unverified, "read", message)
}

impl Head {
    /// The first header of that (lower-case) name, where it is text; without blanks around it.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// All headers of that (lower-case) name that are text, without blanks around them.
    pub fn all<'h, 'n>(&'h self, name: &'n str) -> impl Iterator<Item = &'h str> + use<'h, 'n> {
        let named = self.headers.iter().filter(move |(known, _)| known == name);
        named.filter_map(|(_, value)| std::str::from_utf8(value).ok().map(str::trim))
    }

    /// The same with a body.
    #[must_use]
    pub fn into_answer(self, body: Vec<u8>) -> Answer {
        Answer { status: self.status, headers: self.headers, body }
    }

    /// True for a head that only announces the real one (100, 103): skip it and read on. 101 is none of these, it
    /// ends HTTP on the connection.
    #[must_use]
    pub fn is_interim(&self) -> bool {
        (100..200).contains(&self.status) && self.status != 101
    }

    /// True for 2xx.
    #[must_use]
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// True where the connection may carry another request once the body is read to its end.
    ///
    /// A message whose length is told in two ways may have been tampered with, so nothing after it is trusted.
    #[must_use]
    pub fn keeps_alive(&self) -> bool {
        let has = |word: &str| tokens(self.all("connection")).any(|token| token.eq_ignore_ascii_case(word));
        let is_coded = self.is_coded();
        let is_doubtful = is_coded && (self.minor == 0 || self.has("content-length"));
        !is_doubtful && !has("close") && (self.minor >= 1 || has("keep-alive"))
    }

    /// Where the body ends, by the rules of RFC 9112, section 6.3, for the answer to a request of `method`.
    ///
    /// Chunks win over a `Content-Length` beside them; [`Head::keeps_alive`] is false then.
    ///
    /// # Errors
    /// [`ErrorKind::Unverified`] where lengths contradict each other or are no numbers, for a transfer coding that is
    /// not `chunked`, and for 101, which was never asked for.
    pub fn framing(&self, method: Method) -> Result<Framing> {
        if self.status == 101 {
            return Err(self.broken("the server switched to another protocol, which was not asked for"));
        }
        if method == Method::Head || matches!(self.status, 100..200 | 204 | 304) {
            return Ok(Framing::Empty);
        }
        if self.is_coded() {
            let mut codings = tokens(self.all("transfer-encoding"));
            return match (codings.next(), codings.next()) {
                (Some(only), None) if only.eq_ignore_ascii_case("chunked") => Ok(Framing::Chunked),
                _ => Err(self.broken("the body has a transfer coding that is not just \"chunked\"")),
            };
        }
        Ok(self.content_length()?.map_or(Framing::UntilClose, Framing::Length))
    }

    /// The value of `Content-Length`, also of an answer without a body; `None` where there is none.
    ///
    /// # Errors
    /// [`ErrorKind::Unverified`] where several contradict each other, or one is no number below 2^64.
    pub fn content_length(&self) -> Result<Option<u64>> {
        let mut known = None;
        for (_, value) in self.headers.iter().filter(|(name, _)| name == "content-length") {
            for text in value.split(|byte| *byte == b',') {
                let len = decimal(text).ok_or_else(|| self.broken("Content-Length is not a number"))?;
                if known.is_some_and(|other| other != len) {
                    return Err(self.broken("the answer has two different Content-Length headers"));
                }
                known = Some(len);
            }
        }
        Ok(known)
    }

    /// An error of [`ErrorKind::Unverified`] about this answer.
    pub(super) fn broken(&self, message: impl Into<String>) -> Error {
        broken(message).with_status(self.status)
    }

    fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(known, _)| known == name)
    }

    /// True where a transfer coding is named; the word `identity` alone names none.
    fn is_coded(&self) -> bool {
        let is_identity = |value: &[u8]| value.trim_ascii().eq_ignore_ascii_case(b"identity");
        self.headers.iter().any(|(name, value)| name == "transfer-encoding" && !is_identity(value))
    }
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HTTP/1.{} {}, {} headers", self.minor, self.status, self.headers.len())
    }
}

/// A number of digits only, below 2^64.
pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii();
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The members of comma-separated lists.
pub(super) fn tokens<'a>(lists: impl Iterator<Item = &'a str>) -> impl Iterator<Item = &'a str> {
    lists.flat_map(|list| list.split(',')).map(str::trim).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::request::{Origin, Scheme};
    use proptest::prelude::*;

    fn origin(scheme: Scheme, host: &str, port: u16) -> Origin {
        Origin { scheme, host: host.to_owned(), port }
    }

    fn get(target: &str) -> Request {
        Request::new(Method::Get, origin(Scheme::Http, "example.com", 8080), target)
    }

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    fn head(text: &str) -> Head {
        let text = text.replace('\n', "\r\n");
        let (head, len) = parse(text.as_bytes()).unwrap().unwrap();
        assert_eq!(len, text.len());
        head
    }

    fn framing(text: &str) -> Result<Framing> {
        head(text).framing(Method::Get)
    }

    #[test]
    fn a_request_asks_for_identity_and_names_its_host() {
        let request = get("/a?b=c").with(Header::plain("range", "bytes=0-9"));
        let sent = text(encode(&request, &[Header::plain("if-match", "\"x\"")], false).unwrap());
        assert!(sent.starts_with("GET /a?b=c HTTP/1.1\r\nhost: example.com:8080\r\n"), "{sent}");
        for line in ["accept-encoding: identity", "range: bytes=0-9", "if-match: \"x\"", "accept: */*"] {
            assert!(sent.contains(&format!("\r\n{line}\r\n")), "{sent}");
        }
        assert!(sent.contains("user-agent: kvikio-rs/") && sent.ends_with("\r\n\r\n"), "{sent}");
        assert!(!sent.contains("content-length"), "{sent}");
    }

    #[test]
    fn a_proxy_is_given_the_whole_address() {
        let request = Request::new(Method::Get, origin(Scheme::Http, "::1", 80), "/a");
        let sent = text(encode(&request, &[], true).unwrap());
        assert!(sent.starts_with("GET http://[::1]/a HTTP/1.1\r\nhost: [::1]\r\n"), "{sent}");
    }

    #[test]
    fn what_a_request_names_itself_is_not_said_twice() {
        let request = get("/").with(Header::plain("host", "signed")).with(Header::plain("accept", "a/b"));
        let sent = text(encode(&request, &[], false).unwrap());
        assert_eq!(sent.matches("host:").count(), 1, "{sent}");
        assert!(sent.contains("host: signed\r\n") && sent.contains("accept: a/b\r\n"), "{sent}");
    }

    #[test]
    fn a_body_carries_its_own_length() {
        let mut request = get("/").with(Header::plain("content-length", "7"));
        request.method = Method::Post;
        request.body = b"abc".to_vec();
        let sent = text(encode(&request, &[], false).unwrap());
        assert!(sent.contains("content-length: 3\r\n") && sent.ends_with("\r\n\r\nabc"), "{sent}");
        request.body.clear();
        assert!(text(encode(&request, &[], false).unwrap()).contains("content-length: 0\r\n"));
    }

    #[test]
    fn nothing_can_break_a_line_and_secrets_are_not_in_the_refusal() {
        for value in ["PLANTED\r\nx: y", "PLANTED\n", "PLANTED\0"] {
            let error = encode(&get("/").with(Header::secret("token", value)), &[], false).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(!format!("{error:?} {error}").contains("PLANTED"), "{error}");
        }
        for target in ["", "a", "/a b", "/a\r\nx: y", "/\u{7f}"] {
            assert!(encode(&get(target), &[], false).is_err(), "{target:?}");
        }
        assert!(encode(&get("/").with(Header::plain("a b", "")), &[], false).is_err());
    }

    #[test]
    fn a_head_is_whole_only_with_its_last_byte() {
        let whole = b"HTTP/1.1 206 Partial Content\r\nETag: \"x\"\r\nX:  a \r\n\r\nbody";
        for len in 0..whole.len() - 4 {
            assert!(parse(&whole[..len]).unwrap().is_none(), "{len}");
        }
        let (head, len) = parse(whole).unwrap().unwrap();
        assert_eq!((head.status, head.minor, len), (206, 1, whole.len() - 4));
        assert_eq!((head.header("etag"), head.header("x")), (Some("\"x\""), Some("a")));
    }

    #[test]
    fn what_is_not_http_is_refused_at_once() {
        for text in ["SSH-2.0-OpenSSH\r\n", "\x15\x03\x01\0\x02\x02", "HTTP/2.0 200 OK\r\n\r\n", "<html>"] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unverified, "{text:?}");
        }
        for text in ["HTTP/1.1 200 OK\r\na b: c\r\n\r\n", "HTTP/1.1 200 OK\r\na : c\r\n\r\n"] {
            assert!(parse(text.as_bytes()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_head_without_end_is_refused() {
        let long = format!("HTTP/1.1 200 OK\r\na: {}", "x".repeat(MOST_HEAD));
        assert!(parse(long.as_bytes()).unwrap_err().message().contains("longer than"));
        assert!(parse(format!("{long}\r\n\r\n").as_bytes()).is_err());
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(MOST_HEADERS + 1));
        assert!(parse(many.as_bytes()).unwrap_err().message().contains("headers"));
    }

    #[test]
    fn interim_heads_are_told_from_final_ones() {
        assert!(head("HTTP/1.1 100 Continue\n\n").is_interim());
        assert!(head("HTTP/1.1 103 Early Hints\n\n").is_interim());
        assert!(!head("HTTP/1.1 101 Switching\n\n").is_interim());
        assert!(framing("HTTP/1.1 101 Switching\n\n").is_err());
        assert!(!head("HTTP/1.1 200 OK\n\n").is_interim());
    }

    #[test]
    fn a_connection_is_kept_by_the_rules_of_its_version() {
        for (text, keeps) in [
            ("HTTP/1.1 200 OK\n\n", true),
            ("HTTP/1.1 200 OK\nConnection: a, Close\n\n", false),
            ("HTTP/1.0 200 OK\n\n", false),
            ("HTTP/1.0 200 OK\nConnection: Keep-Alive\n\n", true),
            ("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\nContent-Length: 3\n\n", false),
            ("HTTP/1.0 200 OK\nConnection: keep-alive\nTransfer-Encoding: chunked\n\n", false),
        ] {
            assert_eq!(head(text).keeps_alive(), keeps, "{text}");
        }
    }

    #[test]
    fn the_body_ends_where_the_rules_say() {
        for (text, expected) in [
            ("HTTP/1.1 200 OK\n\n", Framing::UntilClose),
            ("HTTP/1.1 200 OK\nContent-Length: 18446744073709551615\n\n", Framing::Length(u64::MAX)),
            ("HTTP/1.1 200 OK\nContent-Length: 5, 5\nContent-Length: 05\n\n", Framing::Length(5)),
            ("HTTP/1.1 200 OK\nTransfer-Encoding: Chunked\n\n", Framing::Chunked),
            ("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\nContent-Length: 3\n\n", Framing::Chunked),
            ("HTTP/1.1 200 OK\nTransfer-Encoding: identity\nContent-Length: 3\n\n", Framing::Length(3)),
            ("HTTP/1.1 204 No\nContent-Length: 3\n\n", Framing::Empty),
            ("HTTP/1.1 304 No\n\n", Framing::Empty),
        ] {
            assert_eq!(framing(text).unwrap(), expected, "{text}");
        }
        let head = head("HTTP/1.1 200 OK\nContent-Length: 3\n\n");
        assert_eq!(head.framing(Method::Head).unwrap(), Framing::Empty);
        assert_eq!(head.content_length().unwrap(), Some(3));
    }

    #[test]
    fn lengths_that_contradict_or_overflow_are_refused() {
        for lines in [
            "Content-Length: 5\nContent-Length: 6",
            "Content-Length: 5, 6",
            "Content-Length: 18446744073709551616",
            "Content-Length: -1",
            "Content-Length: +1",
            "Content-Length: 0x10",
            "Content-Length: 1 2",
            "Content-Length:",
            "Content-Length: 5,",
            "Transfer-Encoding: gzip, chunked",
            "Transfer-Encoding: chunked, chunked",
            "Transfer-Encoding: chunked\nTransfer-Encoding: identity",
            "Transfer-Encoding: xchunked",
            "Transfer-Encoding:",
        ] {
            let error = framing(&format!("HTTP/1.1 200 OK\n{lines}\n\n")).unwrap_err();
            assert_eq!((error.kind(), error.status()), (ErrorKind::Unverified, Some(200)), "{lines}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut answer = b"HTTP/1.1 200 OK\r\n".to_vec();
            answer.extend(&bytes);
            for bytes in [&bytes, &answer] {
                if let Ok(Some((head, _))) = parse(bytes) {
                    let _ = (head.framing(Method::Get), head.keeps_alive());
                }
            }
        }
    }
}
