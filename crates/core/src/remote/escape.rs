//! Percent-encoding: of a whole key, of the part of a URL that somebody has already encoded, and back.

const HEX: &[u8; 16] = b"0123456789ABCDEF";

fn push_escaped(out: &mut String, byte: u8) {
    out.push('%');
    for digit in [byte >> 4, byte & 15] {
        out.push(char::from(HEX[usize::from(digit)]));
    }
}

/// The bytes that need no encoding anywhere in a URL.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// `%` followed by two hexadecimal digits, at the start of `text`.
fn escape_at(text: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = text else { return None };
    let high = char::from(*high).to_digit(16)?;
    let low = char::from(*low).to_digit(16)?;
    u8::try_from(high * 16 + low).ok()
}

/// Encodes every byte that is not unreserved, but `/`: the path of an object whose name is exactly `key`.
#[must_use]
pub fn path_of_key(key: &[u8]) -> String {
    encode(key, |byte| is_unreserved(byte) || byte == b'/')
}

/// Encodes every byte that is not unreserved: a name or a value of a query.
#[must_use]
pub fn component(text: &[u8]) -> String {
    encode(text, is_unreserved)
}

fn encode(text: &[u8], stays: impl Fn(u8) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for &byte in text {
        if stays(byte) {
            out.push(char::from(byte));
        } else {
            push_escaped(&mut out, byte);
        }
    }
    out
}

/// Makes a path or a query that somebody wrote fit for the wire: what no URL may hold is encoded, what is encoded
/// already stays, so does everything else.
#[must_use]
pub fn for_wire(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(bytes.len());
    for (at, &byte) in bytes.iter().enumerate() {
        let must = match byte {
            b'%' => escape_at(&bytes[at..]).is_none(),
            0..=0x20 | 0x7f.. | b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | b'#' => true,
            _ => false,
        };
        if must {
            push_escaped(&mut out, byte);
        } else {
            out.push(char::from(byte));
        }
    }
    out
}

/// The bytes that an encoded text stands for; a `%` that begins no escape stands for itself, and `+` for `+`.
#[must_use]
pub fn decode(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if let Some(plain) = escape_at(&bytes[at..]) {
            out.push(plain);
            at += 3;
        } else {
            out.push(byte);
            at += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_is_encoded_whole_and_once() {
        assert_eq!(path_of_key(b"a b+c/d#e?f%g%20h&=~[]'"), "a%20b%2Bc/d%23e%3Ff%25g%2520h%26%3D~%5B%5D%27");
        assert_eq!(path_of_key("ü/\u{1F600}".as_bytes()), "%C3%BC/%F0%9F%98%80");
        assert_eq!(component(b"a/b"), "a%2Fb");
    }

    #[test]
    fn what_is_encoded_already_stays() {
        assert_eq!(for_wire("/a b%20c%2fd+e;f=ü"), "/a%20b%20c%2fd+e;f=%C3%BC");
        assert_eq!(for_wire("/100%.bin%"), "/100%25.bin%25");
        assert_eq!(for_wire("/a\r\nb"), "/a%0D%0Ab");
        assert_eq!(decode("a%20b+%zz%"), b"a b+%zz%");
    }

    proptest! {
        #[test]
        fn decoding_undoes_encoding(key: Vec<u8>) {
            prop_assert_eq!(&decode(&path_of_key(&key)), &key);
            prop_assert_eq!(&decode(&component(&key)), &key);
        }

        #[test]
        fn the_wire_form_is_stable_and_harmless(text: String) {
            let once = for_wire(&text);
            prop_assert_eq!(&for_wire(&once), &once);
            prop_assert!(once.bytes().all(|byte| byte.is_ascii_graphic()));
        }
    }
}
