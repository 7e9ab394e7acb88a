//! Addresses as people write them: `scheme://user@host:port/path?query`.
//!
//! The grammar is RFC 3986 with what libcurl's users are used to: one to three slashes after the scheme, raw spaces
//! and non-ASCII letters in path and query (encoded for the wire), `_` in host names. The path is never normalised.

use std::fmt;

use reqsign_core::hash::base64_encode;

use crate::error::{Error, ErrorKind, Result};
use crate::remote::escape;
use crate::remote::request::{Header, Origin, Scheme};
use crate::remote::secret::Secret;

const LONGEST_SCHEME: usize = 40;
const NOT_IN_HOSTS: &[u8] = b" /:#?!@{}[]\\$'\"^`*<>=;,+&()|%";

/// A URL in its parts.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    scheme: String,
    userinfo: Option<Secret>,
    host: String,
    port: Option<u16>,
    path: String,
    query: Option<String>,
}

fn refuse(text: &str, words: &str) -> Error {
    Error::new(ErrorKind::InvalidUrl, "open", format!("the URL cannot be used: {words}")).on(sketch(text))
}

/// What may be shown of a text that is no URL: no query, no user, nothing that breaks a line.
#[must_use]
pub fn sketch(text: &str) -> String {
    let end = text.find(['?', '#']).unwrap_or(text.len());
    // In a broken URL the query may well begin with `&`, and the user end anywhere before an `@`.
    let shown = text.get(..end).unwrap_or_default();
    let shown = match text.rfind('@') {
        Some(at) if at < end => format!("***{}", shown.get(at..).unwrap_or_default()),
        Some(_) => "***".to_owned(),
        None => shown.to_owned(),
    };
    shown.chars().take(200).flat_map(char::escape_debug).collect()
}

impl Url {
    /// Reads a URL of any scheme.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidUrl`], with libcurl's words for what is wrong.
    pub fn parse(text: &str) -> Result<Self> {
        let fail = |words: &str| Err(refuse(text, words));
        if text.trim().is_empty() {
            return fail("Malformed input to a URL function: it is empty");
        }
        if text.chars().any(|c| c.is_ascii_control()) || text.starts_with(' ') {
            return fail("Malformed input to a URL function: it holds a control character or begins blank");
        }
        let Some((scheme, rest)) = split_scheme(text) else {
            return fail("Bad scheme: it has to begin with http://, https:// or s3://");
        };
        let slashes = rest.bytes().take_while(|byte| *byte == b'/').count();
        let is_file = scheme == "file";
        if !(1..=3).contains(&slashes) {
            return fail("Unsupported number of slashes following scheme");
        }
        let rest = rest.get(slashes..).unwrap_or_default();
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, tail) = if is_file { ("", rest) } else { rest.split_at(end) };
        let (path, query) = match tail.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (tail, None),
        };
        let (userinfo, place) = match authority.rsplit_once('@') {
            Some((user, place)) => (Some(user).filter(|user| !user.is_empty()), place),
            None => (None, authority),
        };
        let (host, port) = split_port(place).map_err(|words| refuse(text, words))?;
        if host.is_empty() && !is_file {
            return fail("No host part in the URL");
        }
        Ok(Self {
            scheme,
            userinfo: userinfo.map(Secret::new),
            host: checked_host(host).map_err(|words| refuse(text, words))?,
            port,
            path: if path.is_empty() { "/".to_owned() } else { path.to_owned() },
            query,
        })
    }

    /// The scheme in lower case.
    #[must_use]
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// True for `http` and `https`.
    #[must_use]
    pub fn is_http(&self) -> bool {
        matches!(self.scheme.as_str(), "http" | "https")
    }

    /// The host in lower case; an IPv6 address without its brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, where one is written.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// The path as it is written, `/` where it is not.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The query as it is written.
    #[must_use]
    pub fn query(&self) -> Option<&str> {
        self.query.as_deref()
    }

    /// Whom to connect to.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidUrl`] for a scheme other than `http` and `https`.
    pub fn origin(&self) -> Result<Origin> {
        let scheme = match self.scheme.as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            other => {
                let words = format!("the URL cannot be used: Unsupported URL scheme: {other}");
                return Err(Error::new(ErrorKind::InvalidUrl, "open", words).on(self.subject()));
            }
        };
        let port = self.port.unwrap_or_else(|| scheme.default_port());
        Ok(Origin { scheme, host: self.host.clone(), port })
    }

    /// Path and query as they are sent.
    #[must_use]
    pub fn target(&self) -> String {
        let mut target = escape::for_wire(&self.path);
        if let Some(query) = &self.query {
            target.push('?');
            target.push_str(&escape::for_wire(query));
        }
        target
    }

    /// User and password of the URL as the header that carries them.
    #[must_use]
    pub fn authorization(&self) -> Option<Header> {
        let userinfo = self.userinfo.as_ref()?.reveal();
        let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
        let mut plain = escape::decode(user);
        plain.push(b':');
        plain.extend(escape::decode(password));
        Some(Header::secret("authorization", format!("Basic {}", base64_encode(&plain))))
    }

    /// The URL without user and fragment, the secrets of its query blotted out: its name in messages.
    #[must_use]
    pub fn subject(&self) -> String {
        let mut text = format!("{}://", self.scheme);
        let is_v6 = self.host.contains(':');
        text.push_str(&if is_v6 { format!("[{}]", self.host) } else { self.host.clone() });
        if let Some(port) = self.port {
            text.push_str(&format!(":{port}"));
        }
        text.push_str(&self.path);
        if let Some(query) = &self.query {
            text.push('?');
            text.push_str(&redact(query));
        }
        text
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.subject())
    }
}

/// A query with `***` for the values of parameters that look like secrets.
#[must_use]
pub fn redact(query: &str) -> String {
    let blot = |pair: &str| match pair.split_once('=') {
        Some((name, value)) if !value.is_empty() && is_secret(name) => {
            let end = if pair.ends_with(['&', ';']) { &pair[pair.len() - 1..] } else { "" };
            format!("{name}=***{end}")
        }
        _ => pair.to_owned(),
    };
    query.split_inclusive(['&', ';']).map(blot).collect()
}

fn is_secret(name: &str) -> bool {
    let name = String::from_utf8_lossy(&escape::decode(name)).to_ascii_lowercase();
    let parts =
        ["signature", "credential", "token", "secret", "passw", "accesskey", "access_key", "api", "auth"];
    let whole = ["sig", "key", "policy", "pwd", "pass", "code", "hmac", "jwt", "delegation", "key-pair-id"];
    whole.contains(&name.as_str()) || parts.iter().any(|part| name.contains(part))
}

fn split_scheme(text: &str) -> Option<(String, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let is_first_right = scheme.bytes().next()?.is_ascii_alphabetic();
    let is_rest_right = scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    let is_scheme = is_first_right && is_rest_right && scheme.len() <= LONGEST_SCHEME;
    is_scheme.then(|| (scheme.to_ascii_lowercase(), rest))
}

fn split_port(place: &str) -> std::result::Result<(&str, Option<u16>), &'static str> {
    let (host, port) = if place.starts_with('[') {
        let Some(end) = place.find(']') else { return Err("Bad IPv6 address: no closing bracket") };
        let (host, rest) = place.split_at(end + 1);
        match rest.strip_prefix(':') {
            Some(port) => (host, port),
            None if rest.is_empty() => (host, ""),
            None => return Err("Port number was not a decimal number between 0 and 65535"),
        }
    } else {
        place.split_once(':').unwrap_or((place, ""))
    };
    if port.is_empty() {
        return Ok((host, None));
    }
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse() {
        Ok(number) if is_number && number > 0 => Ok((host, Some(number))),
        _ => Err("Port number was not a decimal number between 0 and 65535"),
    }
}

fn checked_host(host: &str) -> std::result::Result<String, &'static str> {
    if let Some(inner) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        let address: std::net::Ipv6Addr = inner.parse().map_err(|_| "Bad IPv6 address")?;
        return Ok(address.to_string());
    }
    if !host.is_ascii() {
        return Err("Bad hostname: write an international name in its ASCII form (xn--…)");
    }
    if host.bytes().any(|byte| NOT_IN_HOSTS.contains(&byte)) {
        return Err("Bad hostname: it holds a character that no host name may hold");
    }
    Ok(host.to_ascii_lowercase())
}

#[cfg(test)]
mod tests;
