//! Faults that are named in the path, for clients that are not written in Rust.
//!
//! The path is `/FAULT/LEN` or `/FAULT/LEN/ANYTHING`: an object of LEN bytes. Byte number `i` of each is
//! `(i * 31 + i // 251) % 256`. A fault that strikes "once" counts for each path on its own, so that `ANYTHING` makes
//! tests independent of each other.
//!
//! | FAULT | what happens |
//! |---|---|
//! | `ok` | nothing |
//! | `ignore` | 200 with the whole object, whatever the range |
//! | `half` | 206 with half of the range, said so |
//! | `short` | 206 with half of the range, though Content-Range says all |
//! | `long` | 206 with 7 bytes more than asked for |
//! | `shifted`, `lying` | 206 from one byte further on, said so or denied |
//! | `norange` | 206 without Content-Range |
//! | `gzip` | Content-Encoding: gzip |
//! | `etag` | another object of that length from the third request on |
//! | `reset1`, `close1`, `stall1` | the first body reset, closed, or nothing for 5 s, after a third of LEN |
//! | `reset`, `close` | the same with every body |
//! | `trickle` | the body in 20 pieces, one every 100 ms |
//! | `chunked`, `untilclose`, `http10` | how the body is framed |
//! | `interim` | 100 and 103 first |
//! | `slowhead` | the head byte by byte |
//! | `garbage`, `hugehead` | a head that is none |
//! | `noanswer1`, `closesilently` | the connection closed before the first answer; after each answer |
//! | `redirect`, `cross`, `loop` | 302 to `ok`; 302 to `ok` at `localhost`; 302 to itself |
//! | `404`, `503`, … | that status always |
//! | `503x1`, `429x2`, … | that status so many times, with Retry-After: 1, then all well |
//! | `head403`, `head405` | that status for HEAD |
//! | `headnolength` | HEAD without Content-Length |
//! | `errordocument` | 200 with an S3 error document |
//! | `private` | Basic credentials `user:password` wanted |
//! | `delay50`, … | the answer after so many milliseconds |

use std::time::Duration;

use crate::conformance::pattern;
use crate::server::content::Content;
use crate::server::fault::Fault;
use crate::server::script::{Object, Rule};

/// The object and the faults that `path` names; `None` where it names none.
pub(super) fn read(path: &str) -> Option<(Object, Vec<Rule>)> {
    let mut parts = path.strip_prefix('/')?.splitn(3, '/');
    let (word, len) = (parts.next()?, parts.next()?);
    let rest = path.strip_prefix('/')?.strip_prefix(word)?;
    let len: u64 = len.parse().ok()?;
    let always = |fault| Some(vec![Rule::new(path, 0, usize::MAX, fault)]);
    let once = |fault| Some(vec![Rule::new(path, 0, 1, fault)]);
    let rules = match word {
        "ok" => Some(Vec::new()),
        "ignore" => always(Fault::IgnoreRange),
        "half" => always(Fault::HalfRange),
        "short" => always(Fault::ShortBody(u64::MAX)),
        "long" => always(Fault::LongBody(7)),
        "shifted" => always(Fault::Shifted(1)),
        "lying" => always(Fault::Lying(1)),
        "norange" => always(Fault::ContentRange(String::new())),
        "gzip" => always(Fault::Gzip),
        "etag" => {
            let other = Content::from(pattern(usize::try_from(len).ok()?, 1));
            Some(vec![Rule::new(path, 2, usize::MAX, Fault::Replaced(other))])
        }
        "reset1" => once(Fault::ResetAfter(len / 3)),
        "close1" => once(Fault::CloseAfter(len / 3)),
        "stall1" => once(Fault::StallAfter(len / 3, Duration::from_secs(5))),
        "reset" => always(Fault::ResetAfter(len / 3)),
        "close" => always(Fault::CloseAfter(len / 3)),
        "trickle" => {
            let piece = usize::try_from(len.div_ceil(20)).ok()?.max(1);
            always(Fault::Trickle(piece, Duration::from_millis(100)))
        }
        "chunked" => always(Fault::Chunked(10_000)),
        "untilclose" => always(Fault::UntilClose),
        "http10" => always(Fault::Http10),
        "interim" => always(Fault::Interim),
        "slowhead" => always(Fault::SlowHead(1, Duration::from_millis(1))),
        "garbage" => always(Fault::Garbage(b"SSH-2.0-none\r\n".to_vec())),
        "hugehead" => always(Fault::HugeHead(1 << 20)),
        "noanswer1" => once(Fault::NoAnswer),
        "closesilently" => always(Fault::CloseSilently),
        "redirect" => always(Fault::Redirect(302, format!("/ok{rest}"))),
        "cross" => always(Fault::Redirect(302, format!("http://{{localhost}}/ok{rest}"))),
        "loop" => always(Fault::Redirect(302, path.to_owned())),
        "head403" => always(Fault::HeadStatus(403)),
        "head405" => always(Fault::HeadStatus(405)),
        "headnolength" => always(Fault::HeadWithoutLength),
        "errordocument" => always(Fault::ErrorDocument),
        "private" => always(Fault::Private("user:password".to_owned())),
        _ => numbered(word).map(|(times, fault)| vec![Rule::new(path, 0, times, fault)]),
    };
    Some((Object::new(Content::Pattern(len)), rules?))
}

/// `503`, `503x1`, `delay50`: how often, and what.
fn numbered(word: &str) -> Option<(usize, Fault)> {
    if let Some(millis) = word.strip_prefix("delay") {
        return Some((usize::MAX, Fault::Delay(Duration::from_millis(millis.parse().ok()?))));
    }
    let (status, times) = match word.split_once('x') {
        Some((status, times)) => (status, Some(times.parse().ok()?)),
        None => (word, None),
    };
    let status = status.parse().ok().filter(|status| (400..600).contains(status))?;
    Some(match times {
        Some(times) => (times, Fault::Busy(status, "1".to_owned())),
        None => (usize::MAX, Fault::Status(status)),
    })
}
