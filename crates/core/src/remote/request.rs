//! What goes over the wire, as plain values: one request, and the answer to it.

use std::fmt;

/// How a server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// HTTP over TCP.
    Http,
    /// HTTP over TLS.
    Https,
}

impl Scheme {
    /// The scheme as it stands in a URL.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// The port where a URL names none.
    #[must_use]
    pub fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// Whom a connection reaches: requests to the same origin may share connections.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    /// How.
    pub scheme: Scheme,
    /// A name in lower case, or an address; an IPv6 address without its brackets.
    pub host: String,
    /// The TCP port.
    pub port: u16,
}

impl fmt::Display for Origin {
    /// `host`, or `host:port` where the port is not the scheme's own: the value of `Host:`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]", self.host)?;
        } else {
            f.write_str(&self.host)?;
        }
        if self.port == self.scheme.default_port() { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// The object, or a part of it.
    Get,
    /// What a `GET` would say, without the body.
    Head,
    /// Token services only.
    Post,
    /// Token services only.
    Put,
}

impl Method {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
        }
    }
}

/// One header line.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    /// In lower case.
    pub name: String,
    /// Without line breaks.
    pub value: String,
    /// Must not be printed, nor follow a redirect to another origin.
    pub is_secret: bool,
}

impl Header {
    /// A header that anybody may see.
    pub fn plain(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into(), is_secret: false }
    }

    /// A header that holds a credential.
    pub fn secret(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into(), is_secret: true }
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, if self.is_secret { "***" } else { &self.value })
    }
}

/// One request. Whoever sends it adds what belongs to the connection: `host`, `accept-encoding: identity`, the length
/// of the body, and `if-match` where the object's version is known.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    /// What is asked.
    pub method: Method,
    /// Whom.
    pub origin: Origin,
    /// Path and query exactly as sent, beginning with `/`. May hold a signature, so it is never printed whole.
    pub target: String,
    /// Further lines, `range` among them.
    pub headers: Vec<Header>,
    /// The body; empty but for token services.
    pub body: Vec<u8>,
}

impl Request {
    /// A request without headers and body.
    #[must_use]
    pub fn new(method: Method, origin: Origin, target: impl Into<String>) -> Self {
        Self { method, origin, target: target.into(), headers: Vec::new(), body: Vec::new() }
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, header: Header) -> Self {
        self.headers.push(header);
        self
    }

    /// Scheme, host, port and path, without the query: what a message may show.
    #[must_use]
    pub fn address(&self) -> String {
        let path = self.target.split(['?', '#']).next().unwrap_or("/");
        format!("{}://{}{path}", self.origin.scheme.as_str(), self.origin)
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {:?}", self.method.as_str(), self.address(), self.headers)
    }
}

/// The answer to a request: its head, and as much of the body as was wanted.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// Names in lower case, values as they came; in the server's order.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body, or its beginning.
    pub body: Vec<u8>,
}

impl Answer {
    /// The first header of that (lower-case) name, where it is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(known, _)| known == name)?;
        std::str::from_utf8(value).ok().map(str::trim)
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {}, {} headers, {} bytes", self.status, self.headers.len(), self.body.len())
    }
}
