//! The size of an object, out of the answer to a request that was sent to learn it.

use crate::error::{Error, ErrorKind, Result};
use crate::remote::request::{Answer, Header, Method, Origin, Request};

/// The header of the request that asks for one byte, so that the answer tells how many there are. It works where `HEAD`
/// is forbidden, and on servers without ranges, whose `200` tells the length.
#[must_use]
pub fn first_byte() -> Header {
    Header::plain("range", "bytes=0-0")
}

/// One byte, then the head alone: what any server may be asked.
#[must_use]
pub fn probes(origin: &Origin, target: &str) -> Vec<Request> {
    let ask = |method| Request::new(method, origin.clone(), target);
    vec![ask(Method::Get).with(first_byte()), ask(Method::Head)]
}

/// What an answer tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// The size.
    Size(u64),
    /// That the server does not know it: `Content-Range: bytes 0-0/*`.
    Unknown,
    /// Nothing.
    Nothing,
}

/// Reads the answer to a probe.
///
/// # Errors
/// [`ErrorKind::Unverified`] where the answer contradicts itself.
pub fn told(method: Method, answer: &Answer) -> Result<Told> {
    let range = answer.header("content-range").and_then(total);
    match answer.status {
        206 => match range {
            Some((Some(0), Told::Size(0))) => Err(wrong("a byte of an object of no bytes")),
            Some((Some(0), told)) => Ok(told),
            Some((Some(_), _)) => Err(wrong("another range than the one that was asked for")),
            _ => Ok(Told::Nothing),
        },
        416 => Ok(range.map_or(Told::Nothing, |(_, told)| told)),
        200 if is_plain(answer, method) => length(answer),
        _ => Ok(Told::Nothing),
    }
}

/// A body as it is stored: its length is the object's. That of a compressed or a chunked one is not.
fn is_plain(answer: &Answer, method: Method) -> bool {
    let is_stored =
        answer.header("content-encoding").is_none_or(|name| name.eq_ignore_ascii_case("identity"));
    is_stored && (method == Method::Head || answer.header("transfer-encoding").is_none())
}

fn length(answer: &Answer) -> Result<Told> {
    let mut told = Told::Nothing;
    let lengths = answer.headers.iter().filter(|(name, _)| name == "content-length");
    for (_, value) in lengths {
        let number = std::str::from_utf8(value).ok().map(str::trim).and_then(digits);
        let size = number.map(Told::Size).ok_or_else(|| wrong("a Content-Length that is no number"))?;
        if told != Told::Nothing && told != size {
            return Err(wrong("two lengths"));
        }
        told = size;
    }
    Ok(told)
}

/// First byte and total of `<unit> <first>-<last>/<total>` or `<unit> */<total>`.
fn total(text: &str) -> Option<(Option<u64>, Told)> {
    let (unit, rest) = text.split_once(char::is_whitespace)?;
    let (range, total) = rest.split_once('/')?;
    if !unit.eq_ignore_ascii_case("bytes") {
        return None;
    }
    let told = if total.trim() == "*" { Told::Unknown } else { Told::Size(digits(total.trim())?) };
    let range = range.trim();
    match range.split_once('-') {
        None if range == "*" => Some((None, told)),
        Some((first, _)) => Some((Some(digits(first)?), told)),
        None => None,
    }
}

fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn wrong(what: &str) -> Error {
    let words = format!("the server answered {what} when it was asked for the size");
    Error::new(ErrorKind::Unverified, "open", words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(&str, &str)]) -> Answer {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), value.as_bytes().to_vec());
        Answer { status, headers: headers.iter().map(own).collect(), body: Vec::new() }
    }

    #[test]
    fn ranges_and_lengths_tell_the_size() {
        let (range, length) = ("content-range", "content-length");
        for (method, status, headers, expected) in [
            (Method::Get, 206, vec![(range, "bytes 0-0/1234"), (length, "1")], Told::Size(1234)),
            (Method::Get, 206, vec![(range, "BYTES  0-0/18446744073709551615")], Told::Size(u64::MAX)),
            (Method::Get, 206, vec![(range, "bytes 0-0/*")], Told::Unknown),
            (Method::Get, 206, vec![(length, "1")], Told::Nothing),
            (Method::Get, 206, vec![(range, "items 0-0/9")], Told::Nothing),
            (Method::Get, 206, vec![(range, "bytes 0-0/18446744073709551616")], Told::Nothing),
            (Method::Get, 206, vec![(range, "bytes 0-0/-4")], Told::Nothing),
            (Method::Get, 200, vec![(length, " 77 ")], Told::Size(77)),
            (Method::Get, 200, vec![(length, "0")], Told::Size(0)),
            (Method::Get, 200, vec![(length, "77"), (length, "77")], Told::Size(77)),
            (Method::Get, 200, vec![(length, "77"), ("transfer-encoding", "chunked")], Told::Nothing),
            (Method::Head, 200, vec![(length, "77"), ("transfer-encoding", "chunked")], Told::Size(77)),
            (Method::Head, 200, vec![(length, "77"), ("content-encoding", "gzip")], Told::Nothing),
            (Method::Head, 200, vec![(length, "77"), ("content-encoding", "Identity")], Told::Size(77)),
            (Method::Head, 200, vec![], Told::Nothing),
            (Method::Get, 416, vec![(range, "bytes */0"), (length, "300")], Told::Size(0)),
            (Method::Get, 416, vec![(length, "300")], Told::Nothing),
            (Method::Head, 204, vec![(length, "0")], Told::Nothing),
            (Method::Head, 403, vec![(length, "243")], Told::Nothing),
        ] {
            assert_eq!(told(method, &answer(status, &headers)).unwrap(), expected, "{status} {headers:?}");
        }
    }

    #[test]
    fn contradictions_are_refused() {
        for (status, headers) in [
            (206, vec![("content-range", "bytes 5-5/10")]),
            (206, vec![("content-range", "bytes 0-0/0")]),
            (200, vec![("content-length", "1"), ("content-length", "2")]),
            (200, vec![("content-length", "-1")]),
            (200, vec![("content-length", "1e3")]),
            (200, vec![("content-length", "")]),
        ] {
            let error = told(Method::Get, &answer(status, &headers)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unverified, "{headers:?}");
        }
    }
}
