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
//! | `reset`, `close`, `truncate` | the body reset, closed, or closed without TLS's farewell, after a third of LEN |
//! | `stall` | nothing for 5 s after a third of LEN |
//! | `reset1`, `close1`, `stall1`, `noanswer1` | the same for the first request only |
//! | `trickle` | the body in 20 pieces, one every 100 ms |
//! | `chunked`, `untilclose`, `http10` | how the body is framed |
//! | `interim` | 100 and 103 first |
//! | `slowhead` | the head byte by byte |
//! | `garbage`, `hugehead` | a head that is none |
//! | `noanswer`, `closesilently` | the connection closed before an answer; after each answer |
//! | `redirect`, `cross`, `loop` | 302 to `ok`; 302 to `ok` at `localhost`; 302 to itself |
//! | `404`, `503`, … | that status always |
//! | `503x1`, `429x2`, … | that status so many times, with Retry-After: 1, then all well |
//! | `head403`, `head405` | that status for HEAD |
//! | `headnolength` | HEAD without Content-Length |
//! | `errordocument` | 200 with an S3 error document |
//! | `private` | Basic credentials `user:password` wanted |
//! | `delay50`, … | the answer after so many milliseconds |
//! | any of them with `xN` | the first N requests only, then all well: `resetx2`, `lyingx1` |

use std::time::Duration;

use crate::conformance::pattern;
use crate::server::content::Content;
use crate::server::fault::Fault;
use crate::server::script::{Object, Rule};

/// The object and the faults that `path` names; `None` where it names none.
pub(super) fn read(path: &str) -> Option<(Object, Vec<Rule>)> {
    let (word, rest) = path.strip_prefix('/')?.split_once('/')?;
    let len: u64 = rest.split('/').next()?.parse().ok()?;
    let object = Object::new(Content::Pattern(len));
    if word == "ok" {
        return Some((object, Vec::new()));
    }
    if word == "etag" {
        let other = Content::from(pattern(usize::try_from(len).ok()?, 1));
        return Some((object, vec![Rule::new(path, 2, usize::MAX, Fault::Replaced(other))]));
    }
    let counted = word.rsplit_once('x').and_then(|(word, times)| Some((word, times.parse().ok()?)));
    let (word, times) = match (counted, word.strip_suffix('1')) {
        (Some((word, times)), _) => (word, times),
        (None, Some(first)) if first.bytes().all(|byte| byte.is_ascii_alphabetic()) && first != "delay" => {
            (first, 1)
        }
        _ => (word, usize::MAX),
    };
    let fault = match word.parse().ok().filter(|status| (400..600).contains(status)) {
        Some(status) if times < usize::MAX => Fault::Busy(status, "1".to_owned()),
        Some(status) => Fault::Status(status),
        None => fault(word, len, path, rest)?,
    };
    Some((object, vec![Rule::new(path, 0, times, fault)]))
}

/// The fault of that name for an object of `len` bytes at `path`; `rest` is the path after the name.
fn fault(word: &str, len: u64, path: &str, rest: &str) -> Option<Fault> {
    let third = len / 3;
    Some(match word {
        "ignore" => Fault::IgnoreRange,
        "half" => Fault::HalfRange,
        "short" => Fault::ShortBody(u64::MAX),
        "long" => Fault::LongBody(7),
        "shifted" => Fault::Shifted(1),
        "lying" => Fault::Lying(1),
        "norange" => Fault::ContentRange(String::new()),
        "gzip" => Fault::Gzip,
        "reset" => Fault::ResetAfter(third),
        "close" => Fault::CloseAfter(third),
        "truncate" => Fault::TruncateAfter(third),
        "stall" => Fault::StallAfter(third, Duration::from_secs(5)),
        "trickle" => {
            let piece = usize::try_from(len.div_ceil(20)).ok()?.max(1);
            Fault::Trickle(piece, Duration::from_millis(100))
        }
        "chunked" => Fault::Chunked(10_000),
        "untilclose" => Fault::UntilClose,
        "http10" => Fault::Http10,
        "interim" => Fault::Interim,
        "slowhead" => Fault::SlowHead(1, Duration::from_millis(1)),
        "garbage" => Fault::Garbage(b"SSH-2.0-none\r\n".to_vec()),
        "hugehead" => Fault::HugeHead(1 << 20),
        "noanswer" => Fault::NoAnswer,
        "closesilently" => Fault::CloseSilently,
        "redirect" => Fault::Redirect(302, format!("/ok/{rest}")),
        "cross" => Fault::Redirect(302, format!("{{scheme}}://{{localhost}}/ok/{rest}")),
        "loop" => Fault::Redirect(302, path.to_owned()),
        "head403" => Fault::HeadStatus(403),
        "head405" => Fault::HeadStatus(405),
        "headnolength" => Fault::HeadWithoutLength,
        "errordocument" => Fault::ErrorDocument,
        "private" => Fault::Private("user:password".to_owned()),
        _ => Fault::Delay(Duration::from_millis(word.strip_prefix("delay")?.parse().ok()?)),
    })
}
