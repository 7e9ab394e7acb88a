//! The answer to a request, as a value: what is right, bent by the faults that strike.

use std::ops::Range;
use std::time::Duration;

use crate::server::content::Content;
use crate::server::fault::Fault;
use crate::server::request::Seen;
use crate::server::script::Object;

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// In an orderly way.
    Close,
    /// Without TLS's farewell.
    Truncate,
    /// By a reset.
    Reset,
}

/// How the end of the body is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length,
    /// `Content-Length` is left out of an answer without a body.
    Untold,
    Chunked(usize),
    UntilClose,
}

/// So many bytes, each time after that long.
pub(super) type Pace = (usize, Duration);

/// What is sent, and how.
#[derive(Debug)]
pub(super) struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub content: Content,
    /// The bytes of the content that are the body.
    pub range: Range<u64>,
    /// Bytes after them that nobody asked for.
    pub extra: u64,
    pub framing: Framing,
    pub minor: u8,
    pub delay: Duration,
    pub is_interim: bool,
    pub head_pace: Option<Pace>,
    /// Comes instead of everything.
    pub raw: Option<Vec<u8>>,
    pub huge: usize,
    pub cut: Option<(u64, End)>,
    pub stall: Option<(u64, Duration)>,
    pub pace: Option<Pace>,
    /// Whether the head says that the connection ends, and whether it does.
    pub says_close: bool,
    pub closes: bool,
}

impl Reply {
    /// An answer with a few words.
    pub fn words(status: u16, text: &str) -> Self {
        let headers = vec![("content-type".to_owned(), "text/plain".to_owned())];
        Self::of(status, headers, Content::from(text.as_bytes().to_vec()))
    }

    fn of(status: u16, headers: Vec<(String, String)>, content: Content) -> Self {
        Self {
            status,
            headers,
            range: 0..content.len(),
            content,
            extra: 0,
            framing: Framing::Length,
            minor: 1,
            delay: Duration::ZERO,
            is_interim: false,
            head_pace: None,
            raw: None,
            huge: 0,
            cut: None,
            stall: None,
            pace: None,
            says_close: false,
            closes: false,
        }
    }

    pub fn header(&mut self, name: &str, value: impl Into<String>) {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.into()));
    }
}

/// The answer to `seen`, where `object` is what its path names.
pub(super) fn reply(seen: &Seen, object: Option<&Object>, faults: &[Fault]) -> Reply {
    let mut object = object.cloned();
    for fault in faults {
        match (fault, &mut object) {
            (Fault::Replaced(content), object) => *object = Some(Object::new(content.clone())),
            (Fault::ETag(tag), Some(object)) => object.etag.clone_from(tag),
            _ => {}
        }
    }
    let mut reply = refusal(seen, faults).unwrap_or_else(|| match &object {
        Some(object) if matches!(seen.method.as_str(), "GET" | "HEAD") => right(seen, object, faults),
        Some(_) => Reply::words(405, "only GET and HEAD"),
        None => Reply::words(404, "no such object"),
    });
    let is_part = reply.status == 206;
    for fault in faults {
        bend(&mut reply, fault, is_part);
    }
    if seen.method == "HEAD" {
        (reply.cut, reply.stall, reply.pace) = (None, None, None);
    }
    reply
}

/// The answer of a fault that does not let the request through to the object.
fn refusal(seen: &Seen, faults: &[Fault]) -> Option<Reply> {
    faults.iter().find_map(|fault| match fault {
        Fault::Redirect(status, location) => {
            let mut reply = Reply::words(*status, "elsewhere");
            reply.header("location", location.as_str());
            Some(reply)
        }
        Fault::Status(status) => Some(Reply::words(*status, "no")),
        Fault::HeadStatus(status) => Some(Reply::words(*status, "no HEAD")),
        Fault::Busy(status, retry_after) => {
            let mut reply = Reply::words(*status, "later");
            reply.header("retry-after", retry_after.as_str());
            Some(reply)
        }
        Fault::Private(credentials) => {
            let wanted = format!("Basic {}", base64(credentials.as_bytes()));
            (seen.header("authorization") != Some(wanted.as_str())).then(|| {
                let mut reply = Reply::words(401, "who is it?");
                reply.header("www-authenticate", "Basic realm=\"testkit\"");
                reply
            })
        }
        Fault::ErrorDocument => {
            let text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>InternalError</Code>\
                        <Message>We encountered an internal error. Please try again.</Message></Error>";
            let mut reply = Reply::words(200, text);
            reply.header("content-type", "application/xml");
            reply.framing = Framing::Chunked(1000);
            Some(reply)
        }
        _ => None,
    })
}

/// What a good server answers.
fn right(seen: &Seen, object: &Object, faults: &[Fault]) -> Reply {
    let has = |wanted: fn(&Fault) -> bool| faults.iter().any(wanted);
    let len = object.content.len();
    let mut headers = vec![("accept-ranges".to_owned(), "bytes".to_owned())];
    if !object.etag.is_empty() {
        headers.push(("etag".to_owned(), object.etag.clone()));
    }
    let wanted = seen.header("if-match").filter(|_| !has(|fault| matches!(fault, Fault::IgnoreIfMatch)));
    if wanted.is_some_and(|wanted| wanted != object.etag && wanted != "*") {
        return Reply::words(412, "it is another one now");
    }
    let mut reply = Reply::of(200, headers, object.content.clone());
    let ignores = seen.method != "GET" || has(|fault| matches!(fault, Fault::IgnoreRange));
    match seen.range(len).filter(|_| !ignores) {
        None => {}
        Some(Err(())) => {
            reply = Reply::words(416, "no such bytes");
            reply.header("content-range", format!("bytes */{len}"));
        }
        Some(Ok(range)) => {
            reply.status = 206;
            reply.header("content-range", format!("bytes {}-{}/{len}", range.start, range.end - 1));
            reply.range = range;
        }
    }
    reply
}

fn bend(reply: &mut Reply, fault: &Fault, is_part: bool) {
    let total = reply.content.len();
    let Range { start, end } = reply.range;
    match fault {
        Fault::HalfRange if is_part => {
            reply.range.end = start + (end - start).div_ceil(2);
            reply.header("content-range", format!("bytes {start}-{}/{total}", reply.range.end - 1));
        }
        Fault::ShortBody(missing) => reply.range.end = end - (*missing).min((end - start) / 2),
        Fault::LongBody(extra) => reply.extra = *extra,
        Fault::Shifted(by) if is_part => {
            reply.range = (start + by).min(total)..(end + by).min(total);
            let range = &reply.range;
            let text = format!("bytes {}-{}/{total}", range.start, range.end.max(1) - 1);
            reply.header("content-range", text);
        }
        Fault::Lying(by) if is_part => {
            let len = end - start;
            reply.range.start = (start + by).min(total - len);
            reply.range.end = reply.range.start + len;
        }
        Fault::ContentRange(text) if is_part && text.is_empty() => {
            reply.headers.retain(|(name, _)| name != "content-range");
        }
        Fault::ContentRange(text) if is_part => reply.header("content-range", text.as_str()),
        Fault::Gzip => reply.header("content-encoding", "gzip"),
        Fault::Header(name, value) => reply.headers.push((name.clone(), value.clone())),
        Fault::ResetAfter(bytes) => reply.cut = Some((*bytes, End::Reset)),
        Fault::CloseAfter(bytes) => reply.cut = Some((*bytes, End::Close)),
        Fault::TruncateAfter(bytes) => reply.cut = Some((*bytes, End::Truncate)),
        Fault::StallAfter(bytes, time) => reply.stall = Some((*bytes, *time)),
        Fault::Trickle(bytes, time) => reply.pace = Some((*bytes, *time)),
        Fault::Chunked(bytes) => reply.framing = Framing::Chunked((*bytes).max(1)),
        Fault::HeadWithoutLength => reply.framing = Framing::Untold,
        Fault::UntilClose => {
            reply.framing = Framing::UntilClose;
            reply.says_close = true;
        }
        Fault::Http10 => {
            reply.minor = 0;
            reply.says_close = true;
        }
        Fault::Delay(time) => reply.delay = *time,
        Fault::Interim => reply.is_interim = true,
        Fault::SlowHead(bytes, time) => reply.head_pace = Some((*bytes, *time)),
        Fault::Garbage(bytes) => reply.raw = Some(bytes.clone()),
        Fault::HugeHead(bytes) => reply.huge = *bytes,
        Fault::NoAnswer => reply.raw = Some(Vec::new()),
        Fault::Reset => {
            reply.raw = Some(Vec::new());
            reply.cut = Some((0, End::Reset));
        }
        Fault::Close => reply.says_close = true,
        Fault::CloseSilently => reply.closes = true,
        _ => {}
    }
}

/// Base64, for `Basic` credentials.
pub(super) fn base64(bytes: &[u8]) -> String {
    let alphabet: Vec<char> = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(['+', '/']).collect();
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = [0, 1, 2].map(|at| u32::from(group.get(at).copied().unwrap_or(0)));
        let bits = bits[0] << 16 | bits[1] << 8 | bits[2];
        let letters = (0..4).map(|place| alphabet[(bits >> (18 - 6 * place) & 63) as usize]);
        text.extend(
            letters.enumerate().map(|(place, letter)| if place <= group.len() { letter } else { '=' }),
        );
    }
    text
}
