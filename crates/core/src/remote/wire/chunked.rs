//! The framing of a chunked body, read so that the data between can land in place.
//!
//! The decoder sees only the bytes between data: whoever reads gives it what follows a piece of data, learns how many
//! bytes of data come next, takes exactly those elsewhere, and comes back.

use crate::error::{Error, ErrorKind, Result};

/// The most bytes of the line that tells a chunk's size, extensions included.
const MOST_LINE: usize = 4 << 10;
/// The most bytes of all trailer lines.
const MOST_TRAILERS: usize = 64 << 10;

/// What the bytes given to [`Chunked::next`] were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// All were framing, and it goes on.
    More,
    /// The first `used` were framing; `len` bytes of data (at least 1) follow, those in the buffer first.
    Data {
        /// Bytes of framing.
        used: usize,
        /// Bytes of data until the decoder is asked again.
        len: u64,
    },
    /// The first `used` were framing, and with them the body is over.
    End {
        /// Bytes of framing.
        used: usize,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before or among the digits of a size.
    Size,
    /// Blanks after the size.
    Blank,
    /// In the extension after the size.
    Extension,
    /// After the CR of the size's line.
    SizeEnd,
    /// Before the CR that ends data.
    DataCr,
    /// Before the LF that ends data.
    DataLf,
    /// At the start of a trailer line.
    TrailerStart,
    /// In a trailer line.
    Trailer,
    /// After the CR of a trailer line.
    TrailerEnd,
    /// After the CR of the last, empty line.
    LastLf,
    /// After the body.
    Over,
}

/// The decoder: where in the framing we are.
#[derive(Debug, Clone)]
pub struct Chunked {
    state: State,
    size: u64,
    digits: usize,
    /// Bytes of this line, or of all trailers.
    count: usize,
}

impl Default for Chunked {
    fn default() -> Self {
        Self { state: State::Size, size: 0, digits: 0, count: 0 }
    }
}

impl Chunked {
    /// At the start of a body.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// True once the last byte of the body has been seen.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Reads framing from the start of `buf`, which follows the last data taken.
    ///
    /// # Errors
    /// [`ErrorKind::Unverified`] where the bytes are not framing: lines must end with CR LF, sizes stay below 2^64.
    pub fn next(&mut self, buf: &[u8]) -> Result<Step> {
        if self.is_over() {
            return Ok(Step::End { used: 0 });
        }
        for (index, byte) in buf.iter().enumerate() {
            self.state = self.turn(*byte)?;
            let used = index + 1;
            match self.state {
                State::DataCr if self.count == 0 => {
                    self.count = 1;
                    return Ok(Step::Data { used, len: self.size });
                }
                State::Over => return Ok(Step::End { used }),
                _ => {}
            }
        }
        Ok(Step::More)
    }

    fn turn(&mut self, byte: u8) -> Result<State> {
        let state = match (self.state, byte) {
            (State::Size, _) if byte.is_ascii_hexdigit() => return self.digit(byte),
            (State::Size | State::Blank, b' ' | b'\t') if self.digits > 0 => State::Blank,
            (State::Size | State::Blank, b';') if self.digits > 0 => State::Extension,
            (State::Size | State::Blank | State::Extension, b'\r') if self.digits > 0 => State::SizeEnd,
            (State::Extension, b'\n') | (State::Trailer, b'\n') => return Err(broken()),
            (State::Extension, _) => State::Extension,
            (State::SizeEnd, b'\n') => {
                self.count = 0;
                self.digits = 0;
                return Ok(if self.size == 0 { State::TrailerStart } else { State::DataCr });
            }
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => {
                self.size = 0;
                self.count = 0;
                return Ok(State::Size);
            }
            (State::TrailerStart, b'\r') => State::LastLf,
            (State::Trailer, b'\r') => State::TrailerEnd,
            (State::TrailerStart, b'\n') => return Err(broken()),
            (State::TrailerStart | State::Trailer, _) => State::Trailer,
            (State::TrailerEnd, b'\n') => State::TrailerStart,
            (State::LastLf, b'\n') => State::Over,
            _ => return Err(broken()),
        };
        self.count += 1;
        let most = match state {
            State::SizeEnd | State::Size | State::Blank | State::Extension => MOST_LINE,
            _ => MOST_TRAILERS,
        };
        if self.count > most { Err(too_long()) } else { Ok(state) }
    }

    fn digit(&mut self, byte: u8) -> Result<State> {
        self.count += 1;
        self.digits += 1;
        let digit = (byte as char).to_digit(16).unwrap_or_default();
        let size = self.size.checked_mul(16).map(|size| size + u64::from(digit));
        self.size = size.ok_or_else(broken)?;
        // Zeros in front are harmless, but not without end.
        if self.count > MOST_LINE { Err(too_long()) } else { Ok(State::Size) }
    }
}

fn broken() -> Error {
    Error::new(ErrorKind::Unverified, "read", "the chunks of the server's answer are malformed")
}

fn too_long() -> Error {
    Error::new(ErrorKind::Unverified, "read", "a line between the chunks of the server's answer is too long")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Decodes as an event loop does that gets `step` bytes at a time; answers the data and what is left.
    fn decode(mut wire: &[u8], step: usize) -> Result<(Vec<u8>, Vec<u8>)> {
        let mut decoder = Chunked::new();
        let mut data = Vec::new();
        while !wire.is_empty() {
            let piece = &wire[..step.min(wire.len())];
            match decoder.next(piece)? {
                Step::More => wire = &wire[piece.len()..],
                Step::End { used } => return Ok((data, wire[used..].to_vec())),
                Step::Data { used, len } => {
                    wire = &wire[used..];
                    let len = wire.len().min(usize::try_from(len).unwrap());
                    data.extend_from_slice(&wire[..len]);
                    wire = &wire[len..];
                }
            }
        }
        Err(Error::new(ErrorKind::UnexpectedEof, "read", "cut"))
    }

    #[test]
    fn data_is_found_whatever_the_pieces() {
        let wire = b"5\r\nhello\r\n00A;name=\"v;\"\r\n, world\r\n!\r\n1 \t\r\n.\r\n0\r\nx-sum: 1\r\ny: 2\r\n\r\nNEXT";
        for step in 1..wire.len() {
            let (data, rest) = decode(wire, step).unwrap();
            assert_eq!(
                (data.as_slice(), rest.as_slice()),
                (&b"hello, world\r\n!."[..], &b"NEXT"[..]),
                "{step}"
            );
        }
    }

    #[test]
    fn after_the_end_nothing_is_consumed() {
        let mut decoder = Chunked::new();
        assert_eq!(decoder.next(b"0\r\n\r\nHTTP").unwrap(), Step::End { used: 5 });
        assert!(decoder.is_over());
        assert_eq!(decoder.next(b"HTTP").unwrap(), Step::End { used: 0 });
    }

    #[test]
    fn sizes_reach_the_largest_number_and_no_further() {
        let next = |text: &str| Chunked::new().next(text.as_bytes());
        let largest = "FFFFFFFFFFFFFFFF";
        assert_eq!(next(&format!("{largest}\r\n")).unwrap(), Step::Data { used: 18, len: u64::MAX });
        assert!(next(&format!("1{largest}\r\n")).is_err());
        assert!(next(&format!("{largest}0\r\n")).is_err());
        assert_eq!(next("0000000000000000000005\r\n").unwrap(), Step::Data { used: 24, len: 5 });
    }

    #[test]
    fn what_is_not_framing_is_refused() {
        for wire in [
            "\r\n",
            "\n",
            ";x\r\n",
            "x\r\n",
            "-1\r\n",
            "0x5\r\n",
            " 5\r\n",
            "5\n",
            "5;a\nb\r\n",
            "5 5\r\n",
            "5\rx",
            "1\r\nab\r\n",
            "1\r\na\n",
            "0\r\nx\n\r\n",
            "0\r\n\n",
            "0\r\n\rx",
            "0\r\na: b\rc",
        ] {
            let error = decode(wire.as_bytes(), 100).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unverified, "{wire:?}");
        }
    }

    #[test]
    fn lines_and_trailers_have_an_end() {
        let long = "a".repeat(MOST_LINE);
        assert!(Chunked::new().next(format!("5;{long}").as_bytes()).is_err());
        assert!(Chunked::new().next("0".repeat(MOST_LINE + 1).as_bytes()).is_err());
        assert!(Chunked::new().next(format!("5{}", " ".repeat(MOST_LINE)).as_bytes()).is_err());
        let trailers = format!("0\r\n{}", "a: b\r\n".repeat(MOST_TRAILERS / 5));
        assert!(Chunked::new().next(trailers.as_bytes()).is_err());
        let trailers = format!("0\r\n{}\r\n", "a: b\r\n".repeat(MOST_TRAILERS / 7));
        assert!(matches!(Chunked::new().next(trailers.as_bytes()).unwrap(), Step::End { .. }));
    }

    proptest! {
        #[test]
        fn any_body_comes_back_whole(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..50), 0..20), step in 1..40_usize,
        ) {
            let mut wire = Vec::new();
            for piece in &pieces {
                wire.extend(format!("{:x}\r\n", piece.len()).bytes());
                wire.extend(piece);
                wire.extend(b"\r\n");
            }
            wire.extend(b"0\r\n\r\n");
            prop_assert_eq!(decode(&wire, step).unwrap(), (pieces.concat(), Vec::new()));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes, 7);
        }
    }
}
