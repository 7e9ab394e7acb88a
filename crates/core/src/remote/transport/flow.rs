//! The bytes of one body, in order: framing, bytes before the range, the range, bytes after it. No I/O.

use crate::error::Result;
use crate::remote::wire::chunked::{Chunked, Step};
use crate::remote::wire::head::Framing;

/// What the next bytes of the stream are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    /// So many bytes that belong to the caller, at most.
    Land(u64),
    /// So many bytes that nobody wants, at most.
    Skip(u64),
    /// Framing of chunks: to be given to [`Flow::frame`].
    Frame,
    /// Nothing: the body is over, the next answer follows.
    End,
}

#[derive(Debug)]
enum Rest {
    /// So many bytes of body are left.
    Counted(u64),
    /// So many bytes of this chunk are left.
    Chunks(Chunked, u64),
    /// Until the stream ends.
    Open,
}

/// Where in a body we are.
#[derive(Debug)]
pub(super) struct Flow {
    rest: Rest,
    skip: u64,
    take: u64,
}

impl Flow {
    /// At the start of a body of which `take` bytes, after the first `skip`, are wanted.
    pub(super) fn new(framing: Framing, skip: u64, take: u64) -> Self {
        let rest = match framing {
            Framing::Empty => Rest::Counted(0),
            Framing::Length(len) => Rest::Counted(len),
            Framing::Chunked => Rest::Chunks(Chunked::new(), 0),
            Framing::UntilClose => Rest::Open,
        };
        Self { rest, skip, take }
    }

    /// Data that may come before framing is due again.
    fn data(&self) -> u64 {
        match &self.rest {
            Rest::Counted(left) | Rest::Chunks(_, left) => *left,
            Rest::Open => u64::MAX,
        }
    }

    /// What comes next.
    pub(super) fn want(&self) -> Want {
        match (&self.rest, self.data()) {
            (Rest::Counted(_), 0) => Want::End,
            (Rest::Chunks(chunks, _), 0) if chunks.is_over() => Want::End,
            (Rest::Chunks(..), 0) => Want::Frame,
            (_, data) if self.skip > 0 => Want::Skip(data.min(self.skip)),
            (_, data) if self.take > 0 => Want::Land(data.min(self.take)),
            (_, data) => Want::Skip(data),
        }
    }

    /// `len` bytes of data, no more than were wanted, are done with.
    pub(super) fn pass(&mut self, len: u64) {
        match &mut self.rest {
            Rest::Counted(left) | Rest::Chunks(_, left) => *left = left.saturating_sub(len),
            Rest::Open => {}
        }
        let skipped = len.min(self.skip);
        self.skip -= skipped;
        self.take = self.take.saturating_sub(len - skipped);
    }

    /// Reads framing from the start of `bytes`; answers how many bytes it was.
    ///
    /// # Errors
    /// Where it is none.
    pub(super) fn frame(&mut self, bytes: &[u8]) -> Result<usize> {
        let Rest::Chunks(chunks, left) = &mut self.rest else { return Ok(0) };
        Ok(match chunks.next(bytes)? {
            Step::More => bytes.len(),
            Step::Data { used, len } => {
                *left = len;
                used
            }
            Step::End { used } => used,
        })
    }

    /// True once all that was wanted has come.
    pub(super) fn is_served(&self) -> bool {
        self.skip == 0 && self.take == 0
    }

    /// True where the end of the stream is the end of the body.
    pub(super) fn may_end_here(&self) -> bool {
        matches!(self.rest, Rest::Open) || self.want() == Want::End
    }

    /// The bytes between here and the next answer, where they are told and few enough to be worth reading.
    pub(super) fn is_worth_draining(&self, most: u64) -> bool {
        match &self.rest {
            Rest::Counted(left) => *left <= most,
            // What is left of a chunked body is not told; usually it is the last, empty chunk.
            Rest::Chunks(_, left) => *left <= most,
            Rest::Open => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Feeds `wire` in pieces of `step` bytes; answers what landed and whether the end was seen.
    fn run(framing: Framing, skip: u64, take: u64, wire: &[u8], step: usize) -> (Vec<u8>, bool) {
        let mut flow = Flow::new(framing, skip, take);
        let (mut landed, mut at) = (Vec::new(), 0);
        while at < wire.len() {
            let piece = &wire[at..(at + step).min(wire.len())];
            let cut = |most: u64| piece.len().min(usize::try_from(most).unwrap_or(usize::MAX));
            at += match flow.want() {
                Want::End => return (landed, true),
                Want::Frame => flow.frame(piece).unwrap(),
                Want::Land(most) => {
                    landed.extend_from_slice(&piece[..cut(most)]);
                    flow.pass(cut(most) as u64);
                    cut(most)
                }
                Want::Skip(most) => {
                    flow.pass(cut(most) as u64);
                    cut(most)
                }
            };
        }
        (landed, flow.want() == Want::End)
    }

    proptest! {
        #[test]
        fn the_range_lands_whatever_the_framing(
            body in prop::collection::vec(any::<u8>(), 1..300), skip in 0..100_u64, take in 0..100_u64,
            chunk in 1..50_usize, step in 1..40_usize,
        ) {
            let mut chunked = Vec::new();
            for piece in body.chunks(chunk) {
                chunked.extend(format!("{:x}\r\n", piece.len()).bytes());
                chunked.extend(piece);
                chunked.extend(b"\r\n");
            }
            chunked.extend(b"0\r\n\r\n");
            let from = (skip as usize).min(body.len());
            let expected = &body[from..(from + take as usize).min(body.len())];
            let (landed, over) = run(Framing::Length(body.len() as u64), skip, take, &body, step);
            prop_assert!(landed == expected && over);
            let (landed, over) = run(Framing::Chunked, skip, take, &chunked, step);
            prop_assert!(landed == expected && over);
            let (landed, over) = run(Framing::UntilClose, skip, take, &body, step);
            prop_assert!(landed == expected && !over);
        }
    }

    #[test]
    fn only_a_body_without_length_may_end_with_the_stream() {
        assert!(Flow::new(Framing::UntilClose, 0, 5).may_end_here());
        assert!(!Flow::new(Framing::Length(5), 0, 5).may_end_here());
        assert!(!Flow::new(Framing::Chunked, 0, 5).may_end_here());
        assert!(Flow::new(Framing::Empty, 0, 0).may_end_here());
    }

    #[test]
    fn short_tails_are_drained_and_long_or_endless_ones_are_not() {
        assert!(Flow::new(Framing::Length(10), 0, 0).is_worth_draining(10));
        assert!(!Flow::new(Framing::Length(11), 0, 0).is_worth_draining(10));
        assert!(!Flow::new(Framing::UntilClose, 0, 0).is_worth_draining(10));
    }
}
