//! The address in a `Location` header: read leniently, since servers write there what browsers take.

use crate::remote::request::{Origin, Scheme};

/// Where a `Location` leads: whom, and the path with its query, ready for a request line.
#[derive(Clone, PartialEq, Eq)]
pub struct Place {
    /// Whom.
    pub origin: Origin,
    /// Path and query, beginning with `/`.
    pub target: String,
}

/// Why a `Location` leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Astray {
    /// Control characters.
    Control,
    /// A scheme that is neither http nor https.
    Scheme,
    /// No host, or one that cannot be.
    Host,
    /// A port that cannot be.
    Port,
}

impl Astray {
    /// The reason in words.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Control => "its Location holds control characters",
            Self::Scheme => "its Location has a scheme other than http and https",
            Self::Host => "its Location has no usable host",
            Self::Port => "its Location has no usable port",
        }
    }
}

/// Resolves `location` against the address that was asked, as RFC 3986, section 5.2, says. The fragment and what
/// stands before an `@` are dropped; blanks and characters beyond ASCII are percent-encoded.
///
/// # Errors
/// Where it leads nowhere.
pub fn resolve(base: &Origin, base_target: &str, location: &[u8]) -> Result<Place, Astray> {
    let text = encode(location.trim_ascii())?;
    let text = text.split('#').next().unwrap_or_default();
    if let Some((scheme, rest)) = scheme(text) {
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return Err(Astray::Scheme),
        };
        return absolute(scheme, rest.strip_prefix("//").ok_or(Astray::Host)?);
    }
    if let Some(rest) = text.strip_prefix("//") {
        return absolute(base.scheme, rest);
    }
    let (base_path, base_query) = split_query(base_target);
    let (path, query) = split_query(text);
    let target = if path.is_empty() {
        let query = if query.is_empty() { base_query } else { query };
        format!("{base_path}{query}")
    } else if path.starts_with('/') {
        format!("{}{query}", without_dots(path))
    } else {
        let folder = &base_path[..base_path.rfind('/').map_or(0, |slash| slash + 1)];
        format!("{}{query}", without_dots(&format!("{folder}{path}")))
    };
    Ok(Place { origin: base.clone(), target })
}

/// `HOST[:PORT][/PATH][?QUERY]`.
fn absolute(scheme: Scheme, text: &str) -> Result<Place, Astray> {
    let end = text.find(['/', '?']).unwrap_or(text.len());
    let (authority, rest) = text.split_at(end);
    let authority = authority.rsplit('@').next().unwrap_or_default();
    let (host, port) = host_and_port(authority)?;
    let port = match port {
        "" => scheme.default_port(),
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().map_err(|_| Astray::Port)?
        }
        _ => return Err(Astray::Port),
    };
    if port == 0 {
        return Err(Astray::Port);
    }
    let (path, query) = split_query(rest);
    let path = if path.is_empty() { "/".to_owned() } else { without_dots(path) };
    Ok(Place { origin: Origin { scheme, host, port }, target: format!("{path}{query}") })
}

/// The host in lower case and without brackets, and the text after the colon.
pub(super) fn host_and_port(authority: &str) -> Result<(String, &str), Astray> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (address, after) = rest.split_once(']').ok_or(Astray::Host)?;
            address.parse::<std::net::Ipv6Addr>().map_err(|_| Astray::Host)?;
            (address, if after.is_empty() { "" } else { after.strip_prefix(':').ok_or(Astray::Host)? })
        }
        None => {
            let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte);
            if host.is_empty() || !host.bytes().all(is_name) {
                return Err(Astray::Host);
            }
            (host, port)
        }
    };
    Ok((host.to_ascii_lowercase(), port))
}

fn encode(bytes: &[u8]) -> Result<String, Astray> {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            0..0x20 | 0x7F => return Err(Astray::Control),
            b' ' | b'"' | b'<' | b'>' | 0x80.. => text.push_str(&format!("%{byte:02X}")),
            _ => text.push(char::from(*byte)),
        }
    }
    Ok(text)
}

fn scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_scheme.then_some((scheme, rest))
}

/// The path, and the query with its `?`.
fn split_query(text: &str) -> (&str, &str) {
    text.split_at(text.find('?').unwrap_or(text.len()))
}

/// A path (beginning with `/`) without the segments `.` and `..`.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut is_folder = false;
    for segment in path.strip_prefix('/').unwrap_or(path).split('/') {
        is_folder = matches!(segment, "." | "..");
        match segment {
            "." => {}
            ".." => {
                kept.pop();
            }
            _ => kept.push(segment),
        }
    }
    if is_folder {
        kept.push("");
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn base() -> Origin {
        Origin { scheme: Scheme::Https, host: "h".to_owned(), port: 8443 }
    }

    fn resolved(location: &str) -> String {
        let place = resolve(&base(), "/b/c/d;p?q", location.as_bytes()).unwrap();
        assert!(place.target.starts_with('/'));
        format!("{}://{}{}", place.origin.scheme.as_str(), place.origin, place.target)
    }

    #[test]
    fn references_resolve_as_the_rfc_lists_them() {
        for (location, expected) in [
            ("g", "/b/c/g"),
            ("./g", "/b/c/g"),
            ("g/", "/b/c/g/"),
            ("/g", "/g"),
            ("?y", "/b/c/d;p?y"),
            ("g?y", "/b/c/g?y"),
            ("#s", "/b/c/d;p?q"),
            ("g#s", "/b/c/g"),
            ("g?y#s", "/b/c/g?y"),
            (";x", "/b/c/;x"),
            ("", "/b/c/d;p?q"),
            (".", "/b/c/"),
            ("./", "/b/c/"),
            ("..", "/b/"),
            ("../g", "/b/g"),
            ("../..", "/"),
            ("../../g", "/g"),
            ("../../../g", "/g"),
            ("/./g", "/g"),
            ("/../g", "/g"),
            ("g.", "/b/c/g."),
            ("..g", "/b/c/..g"),
            ("./g/.", "/b/c/g/"),
            ("g/./h", "/b/c/g/h"),
            ("g/../h", "/b/c/h"),
            ("g;x=1/../y", "/b/c/y"),
            ("g?y/./x", "/b/c/g?y/./x"),
            ("/a//b", "/a//b"),
            ("/a%2F..", "/a%2F.."),
        ] {
            assert_eq!(resolved(location), format!("https://h:8443{expected}"), "{location}");
        }
    }

    #[test]
    fn other_hosts_are_read_with_their_ports() {
        for (location, expected) in [
            ("http://Example.COM", "http://example.com/"),
            ("HTTP://e.com:80?x=/y", "http://e.com/?x=/y"),
            ("//e.com/a", "https://e.com/a"),
            ("https://e.com:8443/a?b#c", "https://e.com:8443/a?b"),
            ("http://[::1]:81/a", "http://[::1]:81/a"),
            ("http://u:p@e.com/a@b", "http://e.com/a@b"),
            ("http://a_b.e.com:/a b/\u{e9}", "http://a_b.e.com/a%20b/%C3%A9"),
        ] {
            assert_eq!(resolved(location), expected, "{location}");
        }
    }

    #[test]
    fn what_leads_nowhere_is_refused() {
        for (location, why) in [
            ("ftp://e.com/", Astray::Scheme),
            ("file:///etc/passwd", Astray::Scheme),
            ("javascript:x", Astray::Scheme),
            ("http:/a", Astray::Host),
            ("http://", Astray::Host),
            ("http:///a", Astray::Host),
            ("http://u@/a", Astray::Host),
            ("http://a b/", Astray::Host),
            ("http://a%00b/", Astray::Host),
            ("http://[::1/", Astray::Host),
            ("http://[x]/", Astray::Host),
            ("http://[::1]x/", Astray::Host),
            ("http://e.com:0/", Astray::Port),
            ("http://e.com:65536/", Astray::Port),
            ("http://e.com:+80/", Astray::Port),
            ("/a\tb", Astray::Control),
            ("/a\0", Astray::Control),
        ] {
            assert_eq!(resolve(&base(), "/", location.as_bytes()).err(), Some(why), "{location}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_sendable_target_or_none(location in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(place) = resolve(&base(), "/a/b?c", &location) {
                prop_assert!(place.target.starts_with('/'));
                prop_assert!(place.target.bytes().all(|byte| byte > b' ' && byte < 0x7F));
            }
        }
    }
}
