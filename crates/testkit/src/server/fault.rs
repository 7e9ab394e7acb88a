//! The ways in which a request goes wrong.

use std::time::Duration;

use crate::server::content::Content;

/// One way. Faults of several rules that hold for one request add up, as far as they can.
///
/// In addresses and headers `{origin}` stands for the server's own `host:port`, `{localhost}` for the same with the
/// host's name, which is another origin, `{scheme}` for `http` or `https`.
#[derive(Debug, Clone)]
pub enum Fault {
    /// That status with that `Location`.
    Redirect(u16, String),
    /// That status with a few words.
    Status(u16),
    /// That status with `Retry-After`.
    Busy(u16, String),
    /// That status for HEAD only.
    HeadStatus(u16),
    /// HEAD answers without `Content-Length`.
    HeadWithoutLength,
    /// 401 for whoever does not send these credentials (`user:password`).
    Private(String),
    /// 200 with an S3 service's error document, without a length or an `ETag`.
    ErrorDocument,

    /// 200 with the whole object, whatever the range.
    IgnoreRange,
    /// 206 with the first half of the range, said so in `Content-Range`.
    HalfRange,
    /// 206 whose `Content-Length` and body are that many bytes (at most half) short of its `Content-Range`.
    ShortBody(u64),
    /// 206 whose `Content-Length` and body are that many bytes longer than asked for.
    LongBody(u64),
    /// 206 with bytes from that much further on, and a `Content-Range` that says so.
    Shifted(u64),
    /// 206 with bytes from that much further on, and a `Content-Range` that denies it.
    Lying(u64),
    /// 206 with that `Content-Range`; none at all where it is empty.
    ContentRange(String),
    /// The body is not encoded, but the head says `gzip`.
    Gzip,
    /// From then on there is another object in its place.
    Replaced(Content),
    /// `If-Match` is not looked at.
    IgnoreIfMatch,
    /// Another `ETag`; none at all where it is empty.
    ETag(String),
    /// One more header line.
    Header(String, String),

    /// The connection is reset after so many bytes of the body.
    ResetAfter(u64),
    /// The connection is closed in an orderly way after so many bytes of the body.
    CloseAfter(u64),
    /// TCP is closed after so many bytes of the body, without TLS's farewell.
    TruncateAfter(u64),
    /// After so many bytes of the body nothing comes for that long, then the rest.
    StallAfter(u64, Duration),
    /// The body comes in pieces of so many bytes, each after that long.
    Trickle(usize, Duration),

    /// The body comes in chunks of so many bytes.
    Chunked(usize),
    /// The body has no length and ends with the connection.
    UntilClose,
    /// HTTP/1.0: without chunks, closing after the answer.
    Http10,

    /// The answer begins after that long.
    Delay(Duration),
    /// 100 and 103 come first.
    Interim,
    /// The head comes in pieces of so many bytes, each after that long.
    SlowHead(usize, Duration),
    /// These bytes come instead of a head; then the connection is closed.
    Garbage(Vec<u8>),
    /// A head of so many bytes.
    HugeHead(usize),
    /// The connection is closed instead of an answer.
    NoAnswer,
    /// The connection is reset instead of an answer.
    Reset,

    /// The connection is closed after the answer, and the head says so.
    Close,
    /// The connection is closed after the answer, though the head does not say so.
    CloseSilently,
}

impl Fault {
    /// True where the fault can happen to a request of that method.
    pub(super) fn concerns(&self, method: &str) -> bool {
        match self {
            Self::HeadStatus(_) | Self::HeadWithoutLength => method == "HEAD",
            Self::ShortBody(_)
            | Self::LongBody(_)
            | Self::ResetAfter(_)
            | Self::CloseAfter(_)
            | Self::TruncateAfter(_)
            | Self::StallAfter(..)
            | Self::Trickle(..) => method == "GET",
            _ => true,
        }
    }
}
