//! Whether the body of an answer is the range that was asked for: decided from the head, before a byte lands.

use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};
use crate::remote::endpoint::Proof;
use crate::remote::request::{Answer, Header};
use crate::remote::wire::head::{Framing, Head, decimal, tokens};

/// What tells one state of an object from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    etag: Option<String>,
    modified: Option<String>,
}

impl Version {
    /// The version that a head tells; `None` where it tells none.
    #[must_use]
    pub fn of(head: &Head) -> Option<Self> {
        Self::from_headers(head.header("etag"), head.header("last-modified"))
    }

    /// The version that the answer to a probe tells.
    #[must_use]
    pub fn of_answer(answer: &Answer) -> Option<Self> {
        Self::from_headers(answer.header("etag"), answer.header("last-modified"))
    }

    fn from_headers(etag: Option<&str>, modified: Option<&str>) -> Option<Self> {
        let text = |value: Option<&str>| value.filter(|text| !text.is_empty()).map(str::to_owned);
        let version = Self { etag: text(etag), modified: text(modified) };
        (version.etag.is_some() || version.modified.is_some()).then_some(version)
    }

    /// Makes a server answer only for this version. A weak tag never matches there, so only a strong one is sent.
    #[must_use]
    pub fn if_match(&self) -> Option<Header> {
        let tag = self.etag.as_deref()?;
        let is_strong = tag.len() >= 2 && tag.starts_with('"') && tag.ends_with('"');
        is_strong.then(|| Header::plain("if-match", tag))
    }

    /// True where the two may be the same state: tags decide where both have one, else the dates.
    ///
    /// A tag that only became weak on its way still names the same state.
    #[must_use]
    pub fn agrees(&self, other: &Self) -> bool {
        let opaque = |tag: &str| tag.strip_prefix("W/").unwrap_or(tag).to_owned();
        match (&self.etag, &other.etag, &self.modified, &other.modified) {
            (Some(one), Some(two), _, _) => opaque(one) == opaque(two),
            (_, _, Some(one), Some(two)) => one == two,
            _ => true,
        }
    }
}

/// What is known before the answer comes.
#[derive(Debug, Clone)]
pub struct Expected<'a> {
    /// The bytes that were asked for; never empty.
    pub range: Range<u64>,
    /// The object's size.
    pub size: Option<u64>,
    /// The version that earlier bytes belong to.
    pub version: Option<&'a Version>,
    /// What proves a body.
    pub proof: Proof,
}

/// Which bytes of a body are wanted.
///
/// A body may end by its own framing before `skip + take` bytes. Where the status is 206, what came is right, and the
/// rest is to be asked for anew, as after a connection that broke. Where it is 200, it is not the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    /// Bytes before the range: of a server that sends the whole object.
    pub skip: u64,
    /// Bytes that belong to the range, from its start on; fewer than the range has where the server sends a part.
    pub take: u64,
    /// The size of the object, where the answer tells it.
    pub total: Option<u64>,
    /// The version that the bytes belong to, where the answer tells it.
    pub version: Option<Version>,
}

/// Decides about the body of a 2xx answer.
///
/// # Errors
/// [`ErrorKind::Changed`] where the object is another one than before, [`ErrorKind::Unverified`] where the body is not
/// (or cannot be shown to be) the range.
pub fn judge(head: &Head, framing: Framing, expected: &Expected<'_>) -> Result<Body> {
    if let Some(coding) = coding(head) {
        return Err(head.broken(format!(
            "the server sent the body encoded ({coding}) though it was asked not to, so its bytes are not the object's"
        )));
    }
    let version = Version::of(head);
    if let (Some(known), Some(now)) = (expected.version, &version)
        && !known.agrees(now)
    {
        return Err(changed(
            head,
            "the object was replaced while it was read (another ETag or date): open it again",
        ));
    }
    let has_range = head.header("content-range").is_some();
    let (skip, take, total) = match (head.status, expected.proof) {
        (200, Proof::Length) => exact(head, framing, expected)?,
        (206, Proof::ContentRange) => part(head, framing, expected)?,
        (200, Proof::ContentRange) if has_range => part(head, framing, expected)?,
        (200, Proof::ContentRange) => whole(head, framing, expected, version.as_ref())?,
        (status, _) => return Err(head.broken(format!("status {status} does not answer a read"))),
    };
    Ok(Body { skip, take, total, version })
}

type Parts = (u64, u64, Option<u64>);

/// The range is part of the address: the body is it, and nothing else.
fn exact(head: &Head, framing: Framing, expected: &Expected<'_>) -> Result<Parts> {
    let len = expected.range.end - expected.range.start;
    match framing {
        Framing::Length(told) if told != len => {
            Err(head.broken(format!("the server sends {told} bytes, {len} were asked for")))
        }
        Framing::Empty => Err(head.broken("the server sends no body")),
        _ => Ok((0, len, None)),
    }
}

/// `Content-Range` says which bytes come.
fn part(head: &Head, framing: Framing, expected: &Expected<'_>) -> Result<Parts> {
    let Range { start, end } = expected.range;
    if head.header("content-type").is_some_and(|value| starts_with(value, "multipart/byteranges")) {
        return Err(head.broken("the server sends several parts where one was asked for"));
    }
    let mut values = head.all("content-range");
    let (Some(text), None) = (values.next(), values.next()) else {
        return Err(
            head.broken("the server does not say, or says twice, which bytes it sends (Content-Range)")
        );
    };
    let Some(sent) = ContentRange::parse(text) else {
        return Err(head.broken("the Content-Range of the server's answer is malformed"));
    };
    if let (Some(size), Some(total)) = (expected.size, sent.total)
        && size != total
    {
        return Err(another_size(head, size, total));
    }
    if sent.first != start || sent.last >= end {
        return Err(head.broken(format!(
            "the server sends bytes {}..={}, asked for were {start}..={}",
            sent.first,
            sent.last,
            end - 1
        )));
    }
    let len = sent.last - sent.first + 1;
    match framing {
        Framing::Length(told) if told != len => {
            Err(head.broken(format!("Content-Range announces {len} bytes, Content-Length {told}")))
        }
        Framing::Empty => Err(head.broken("the server sends no body")),
        _ => Ok((0, len, sent.total)),
    }
}

/// The server ignores ranges and sends the whole object: the range is cut out of it.
fn whole(head: &Head, framing: Framing, expected: &Expected<'_>, version: Option<&Version>) -> Result<Parts> {
    let Range { start, end } = expected.range;
    let len = match framing {
        Framing::Length(len) => Some(len),
        Framing::Empty => return Err(head.broken("the server sends no body")),
        Framing::Chunked | Framing::UntilClose => None,
    };
    match (len, expected.size) {
        (Some(len), Some(size)) if len != size && is_document(head) => {
            return Err(head.broken(format!(
                "the server sends a document of {len} bytes (an error page, a login?), the object has {size}"
            )));
        }
        (Some(len), Some(size)) if len != size => return Err(another_size(head, size, len)),
        (Some(len), None) if len < end => {
            return Err(head.broken(format!("the server sends {len} bytes in all, the range ends at {end}")));
        }
        (None, _) if is_page(head) || (version.is_none() && expected.version.is_some()) => {
            return Err(head.broken(
                "the server sends a document of unknown length without an ETag (an error page, a login?)",
            ));
        }
        _ => {}
    }
    Ok((start, end - start, len))
}

/// True for what a server says about an object rather than sends as one, where the length tells already.
fn is_document(head: &Head) -> bool {
    is_page(head) || is_of(head, &["application/json", "text/plain"])
}

/// The same where nothing else tells: pages of errors and logins, and S3's "success" that is none, come so.
fn is_page(head: &Head) -> bool {
    is_of(head, &["text/html", "application/xhtml", "text/xml", "application/xml"])
}

fn is_of(head: &Head, kinds: &[&str]) -> bool {
    head.header("etag").is_none()
        && head.header("content-type").is_some_and(|value| kinds.iter().any(|kind| starts_with(value, kind)))
}

/// The encoding of the body, where there is one.
fn coding(head: &Head) -> Option<String> {
    let values = head.headers.iter().filter(|(name, _)| name == "content-encoding");
    let values: Vec<_> = values.map(|(_, value)| String::from_utf8_lossy(value)).collect();
    let mut codings = tokens(values.iter().map(AsRef::as_ref));
    codings.find(|coding| !coding.eq_ignore_ascii_case("identity")).map(str::to_owned)
}

fn starts_with(value: &str, prefix: &str) -> bool {
    value.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

fn another_size(head: &Head, size: u64, total: u64) -> Error {
    changed(
        head,
        format!("the object has {total} bytes, not {size}: it was replaced, or the size given is wrong"),
    )
}

fn changed(head: &Head, message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Changed, "read", message).with_status(head.status)
}

/// A `Content-Range` of bytes that are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentRange {
    /// The first byte.
    pub first: u64,
    /// The last byte, not below `first`.
    pub last: u64,
    /// The size of the object, above `last`; `None` where it is not told (`*`).
    pub total: Option<u64>,
}

impl ContentRange {
    /// Reads `bytes FIRST-LAST/TOTAL`; `None` for anything else, and for numbers that cannot be.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (unit, rest) = text.trim().split_once(' ')?;
        let (range, total) = rest.trim_start_matches(' ').split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let number = |text: &str| (text.trim() == text).then(|| decimal(text.as_bytes())).flatten();
        let total = if total == "*" { None } else { Some(number(total)?) };
        let range = Self { first: number(first)?, last: number(last)?, total };
        let is_sound = range.first <= range.last
            && range.last < u64::MAX
            && range.total.is_none_or(|total| range.last < total);
        (unit.eq_ignore_ascii_case("bytes") && is_sound).then_some(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::request::Method;
    use crate::remote::wire::head;
    use proptest::prelude::*;

    const PART: &str = "HTTP/1.1 206 Partial\nContent-Length: 10\n";

    fn head(text: &str) -> Head {
        let text = format!("{}\n", text.trim_end()).replace('\n', "\r\n");
        head::parse(format!("{text}\r\n").as_bytes()).unwrap().unwrap().0
    }

    /// Judges for bytes 100..110 of an object of 1,000, as far as the arguments do not say otherwise.
    fn judge_as(text: &str, size: Option<u64>, etag: Option<&str>, proof: Proof) -> Result<Body> {
        let head = head(text);
        let version = etag.map(|tag| Version { etag: Some(tag.to_owned()), modified: None });
        let expected = Expected { range: 100..110, size, version: version.as_ref(), proof };
        judge(&head, head.framing(Method::Get).unwrap(), &expected)
    }

    fn judged(text: &str) -> Result<(u64, u64, Option<u64>)> {
        judge_as(text, Some(1000), None, Proof::ContentRange).map(|body| (body.skip, body.take, body.total))
    }

    fn refused(text: &str) -> ErrorKind {
        let error = judged(text).unwrap_err();
        assert!(error.status().is_some(), "{error}");
        error.kind()
    }

    #[test]
    fn the_range_is_taken_as_it_is() {
        for range in ["bytes 100-109/1000", "BYTES 100-109/1000", "bytes  100-109/*"] {
            let (skip, take, total) = judged(&format!("{PART}Content-Range: {range}")).unwrap();
            assert_eq!((skip, take), (0, 10), "{range}");
            assert_eq!(total.is_none(), range.ends_with('*'), "{range}");
        }
        assert!(
            judged("HTTP/1.1 206 P\nTransfer-Encoding: chunked\nContent-Range: bytes 100-109/1000").is_ok()
        );
    }

    #[test]
    fn a_part_that_begins_right_is_taken_and_the_rest_is_left() {
        let text = "HTTP/1.1 206 P\nContent-Length: 4\nContent-Range: bytes 100-103/1000";
        assert_eq!(judged(text).unwrap(), (0, 4, Some(1000)));
    }

    #[test]
    fn another_range_than_asked_for_is_never_taken() {
        for range in [
            "bytes 101-110/1000",
            "bytes 99-108/1000",
            "bytes 0-9/1000",
            "bytes 100-110/1000",
            "bytes 100-109",
            "bytes */1000",
            "bytes 109-100/1000",
            "octets 100-109/1000",
            "bytes 100-109/50",
            "bytes=100-109/1000",
            "",
        ] {
            assert_eq!(refused(&format!("{PART}Content-Range: {range}")), ErrorKind::Unverified, "{range}");
        }
        assert_eq!(refused(PART), ErrorKind::Unverified);
        let twice = "Content-Range: bytes 100-109/1000\nContent-Range: bytes 100-109/1000";
        assert_eq!(refused(&format!("{PART}{twice}")), ErrorKind::Unverified);
        let parts = "Content-Type: Multipart/Byteranges; boundary=x\nContent-Range: bytes 100-109/1000";
        assert_eq!(refused(&format!("{PART}{parts}")), ErrorKind::Unverified);
    }

    #[test]
    fn ranges_that_cannot_be_are_not_read() {
        for text in [
            "bytes 5-4/10",
            "bytes 0-10/10",
            "bytes 0-0/0",
            "bytes 0-18446744073709551615/*",
            "bytes -5/10",
            "bytes",
        ] {
            assert_eq!(ContentRange::parse(text), None, "{text}");
        }
        let whole = ContentRange { first: 0, last: 9, total: Some(10) };
        assert_eq!(ContentRange::parse("bytes 0-9/10"), Some(whole));
        let longer = "HTTP/1.1 206 P\nContent-Length: 11\nContent-Range: bytes 100-110/1000";
        assert_eq!(refused(longer), ErrorKind::Unverified, "a byte more than was asked for");
    }

    #[test]
    fn lengths_must_agree_with_the_range() {
        for len in [0, 5, 9, 11] {
            let text = format!("HTTP/1.1 206 P\nContent-Length: {len}\nContent-Range: bytes 100-109/1000");
            assert_eq!(refused(&text), ErrorKind::Unverified, "{len}");
        }
    }

    #[test]
    fn another_size_is_another_object() {
        assert_eq!(refused(&format!("{PART}Content-Range: bytes 100-109/1001")), ErrorKind::Changed);
        assert_eq!(refused("HTTP/1.1 200 OK\nContent-Length: 999"), ErrorKind::Changed);
    }

    #[test]
    fn encoded_bodies_are_refused() {
        for coding in ["gzip", "identity, br", "GZIP", "aws-chunked"] {
            let text = format!("{PART}Content-Range: bytes 100-109/1000\nContent-Encoding: {coding}");
            assert_eq!(refused(&text), ErrorKind::Unverified, "{coding}");
        }
        assert!(
            judged(&format!("{PART}Content-Range: bytes 100-109/1000\nContent-Encoding: Identity")).is_ok()
        );
    }

    #[test]
    fn a_whole_object_is_cut_to_the_range() {
        assert_eq!(judged("HTTP/1.1 200 OK\nContent-Length: 1000").unwrap(), (100, 10, Some(1000)));
        assert_eq!(judged("HTTP/1.1 200 OK\nTransfer-Encoding: chunked").unwrap(), (100, 10, None));
        assert_eq!(judged("HTTP/1.0 200 OK").unwrap(), (100, 10, None));
        let unknown = |text| judge_as(text, None, None, Proof::ContentRange);
        assert_eq!(unknown("HTTP/1.1 200 OK\nContent-Length: 110").unwrap().total, Some(110));
        let error = unknown("HTTP/1.1 200 OK\nContent-Length: 109").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unverified);
    }

    #[test]
    fn a_200_that_names_a_range_is_held_to_it() {
        let text = "HTTP/1.1 200 OK\nContent-Length: 10\nContent-Range: bytes";
        assert_eq!(judged(&format!("{text} 100-109/1000")).unwrap(), (0, 10, Some(1000)));
        assert_eq!(refused(&format!("{text} 0-9/1000")), ErrorKind::Unverified);
    }

    #[test]
    fn error_documents_are_not_the_object() {
        let page = "HTTP/1.1 200 OK\nContent-Type: application/xml\n";
        assert_eq!(refused(&format!("{page}Content-Length: 300")), ErrorKind::Unverified);
        for kind in ["application/xml", "text/xml; charset=utf-8", "Text/HTML"] {
            let text = format!("HTTP/1.1 200 OK\nContent-Type: {kind}\nTransfer-Encoding: chunked");
            assert_eq!(refused(&text), ErrorKind::Unverified, "{kind}");
            assert!(judged(&format!("{text}\nETag: \"a\"")).is_ok(), "an object of that type: {kind}");
        }
        let untagged = judge_as("HTTP/1.0 200 OK", Some(1000), Some("\"a\""), Proof::ContentRange);
        assert_eq!(untagged.unwrap_err().kind(), ErrorKind::Unverified);
    }

    #[test]
    fn other_statuses_do_not_answer_a_read() {
        for status in [201, 203, 204, 205, 207, 226] {
            let text = format!("HTTP/1.1 {status} X\nContent-Length: 1000");
            assert_eq!(refused(&text), ErrorKind::Unverified, "{status}");
        }
    }

    #[test]
    fn a_range_in_the_address_is_proven_by_its_length() {
        let judged =
            |text| judge_as(text, Some(1000), None, Proof::Length).map(|body| (body.skip, body.take));
        assert_eq!(judged("HTTP/1.1 200 OK\nContent-Length: 10").unwrap(), (0, 10));
        assert_eq!(judged("HTTP/1.1 200 OK\nTransfer-Encoding: chunked").unwrap(), (0, 10));
        for text in
            ["HTTP/1.1 200 OK\nContent-Length: 1000", "HTTP/1.1 200 OK\nContent-Length: 9", "HTTP/1.1 206 P"]
        {
            assert_eq!(judged(text).unwrap_err().kind(), ErrorKind::Unverified, "{text}");
        }
    }

    #[test]
    fn versions_are_told_apart() {
        let judge = |known, header: &str| {
            let text = format!("{PART}Content-Range: bytes 100-109/1000\n{header}");
            judge_as(&text, Some(1000), Some(known), Proof::ContentRange).map_err(|error| error.kind())
        };
        assert!(judge("\"a\"", "ETag: \"a\"").unwrap().version.is_some());
        assert!(judge("\"a\"", "ETag: W/\"a\"").is_ok() && judge("\"a\"", "").is_ok());
        assert!(judge("\"a\"", "Last-Modified: Mon").is_ok());
        assert_eq!(judge("\"a\"", "ETag: \"b\""), Err(ErrorKind::Changed));
        assert_eq!(judge("W/\"a\"", "ETag: W/\"b\""), Err(ErrorKind::Changed));
        let dated = |date: &str| Version::from_headers(None, Some(date)).unwrap();
        assert!(dated("Mon").agrees(&dated("Mon")) && !dated("Mon").agrees(&dated("Tue")));
        assert_eq!(Version::from_headers(Some(""), None), None);
    }

    #[test]
    fn only_a_strong_tag_is_sent() {
        let sent = |tag: &str| Version::from_headers(Some(tag), None).unwrap().if_match();
        assert_eq!(sent("\"a\"").unwrap().value, "\"a\"");
        for tag in ["W/\"a\"", "a", "\"", "*"] {
            assert!(sent(tag).is_none(), "{tag}");
        }
    }

    proptest! {
        #[test]
        fn sound_ranges_are_read_back(first in 0..1_u64 << 60, len in 1..1_u64 << 60, more in 0..1_u64 << 60, star: bool) {
            let last = first + len - 1;
            let total = (!star).then_some(last + 1 + more);
            let text = format!("bytes {first}-{last}/{}", total.map_or("*".to_owned(), |total| total.to_string()));
            prop_assert_eq!(ContentRange::parse(&text), Some(ContentRange { first, last, total }));
        }

        #[test]
        fn only_what_the_naive_reader_takes_is_taken(text in "(bytes|Bytes|b)?[ =]{0,2}[0-9]{0,3}-?[0-9 ]{0,3}/?([0-9]{0,4}|\\*)") {
            let naive = || {
                let rest = text.strip_prefix("bytes").or_else(|| text.strip_prefix("Bytes"))?;
                if !rest.starts_with(' ') { return None; }
                let rest = rest.trim_start_matches(' ');
                let numbers: Vec<&str> = rest.split(['-', '/']).collect();
                let [first, last, total] = numbers[..] else { return None };
                let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
                if rest.find('-')? > rest.find('/')? || !is_number(first) || !is_number(last) { return None; }
                let (first, last) = (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?);
                let total = if total == "*" { None } else if is_number(total) { Some(total.parse::<u64>().ok()?) } else { return None };
                (first <= last && total.is_none_or(|total| last < total)).then_some((first, last, total))
            };
            let read = ContentRange::parse(&text).map(|range| (range.first, range.last, range.total));
            prop_assert_eq!(read, naive());
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,40}") {
            let _ = ContentRange::parse(&text);
        }
    }
}
