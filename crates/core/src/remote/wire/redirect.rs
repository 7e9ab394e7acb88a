//! Where a redirect leads, and what may go along: the range always, credentials only to the same origin.

use std::fmt;

use crate::error::{Error, ErrorKind, Result};
use crate::remote::request::{Header, Method, Request, Scheme};
use crate::remote::wire::head::Head;
use crate::remote::wire::location;

/// The most redirects of one request.
const MOST_HOPS: usize = 20;

/// The redirects that one request has followed so far.
#[derive(Default)]
pub struct Hops {
    /// Where it was; may hold signatures.
    seen: Vec<String>,
}

impl Hops {
    /// Before the first request.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl fmt::Debug for Hops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} hops", self.seen.len())
    }
}

/// True where `head` sends elsewhere. A status of this kind without a `Location` (S3's answer from a wrong region) does
/// not: the service knows what it means.
#[must_use]
pub fn is_redirect(head: &Head) -> bool {
    matches!(head.status, 301 | 302 | 303 | 307 | 308) && raw_location(head).is_some()
}

/// The request to send after `request` was answered with the redirect `head`.
///
/// The method stays, and `range` and `if-match` with it. To another origin (scheme, host or port) no secret header
/// goes along, nor `authorization`, `cookie` and the like under whatever mark. From https to http it goes only where
/// the request carries nothing secret.
///
/// # Errors
/// [`ErrorKind::Refused`] with the status where it leads in a circle, too far, nowhere, or to where secrets must not
/// go; also for methods other than GET and HEAD, whose bodies may be secret.
pub fn follow(request: &Request, head: &Head, hops: &mut Hops) -> Result<Request> {
    let refuse = |why: &str| Err(refused(request, head, why));
    if !matches!(request.method, Method::Get | Method::Head) {
        return refuse("a request with a body is not redirected");
    }
    let Some(location) = raw_location(head) else {
        return refuse("the answer has no Location");
    };
    let place = match location::resolve(&request.origin, &request.target, location) {
        Ok(place) => place,
        Err(astray) => return refuse(astray.as_str()),
    };
    if hops.seen.is_empty() {
        hops.seen.push(address(request));
    }
    let crosses = place.origin != request.origin;
    let is_bare = !request.headers.iter().any(is_private);
    if request.origin.scheme == Scheme::Https && place.origin.scheme == Scheme::Http && !is_bare {
        return refuse("it leads from https to http, where credentials would be readable");
    }
    let kept = |header: &&Header| !crosses || (!is_private(header) && header.name != "host");
    let headers = request.headers.iter().filter(kept).cloned().collect();
    let next = Request {
        method: request.method,
        origin: place.origin,
        target: place.target,
        headers,
        body: Vec::new(),
    };
    let to = address(&next);
    if hops.seen.contains(&to) {
        return refuse("the redirects lead in a circle");
    }
    if hops.seen.len() > MOST_HOPS {
        return refuse(&format!("more than {MOST_HOPS} redirects"));
    }
    hops.seen.push(to);
    Ok(next)
}

fn raw_location(head: &Head) -> Option<&[u8]> {
    head.headers.iter().find(|(name, _)| name == "location").map(|(_, value)| value.as_slice())
}

/// True for what must not be shown to another origin.
fn is_private(header: &Header) -> bool {
    let known = ["authorization", "cookie", "proxy-authorization", "x-amz-security-token"];
    header.is_secret || known.contains(&header.name.as_str())
}

fn address(request: &Request) -> String {
    format!("{}://{}{}", request.origin.scheme.as_str(), request.origin, request.target)
}

fn refused(request: &Request, head: &Head, why: &str) -> Error {
    let message = format!("the server redirects (status {}), which is not followed: {why}", head.status);
    Error::new(ErrorKind::Refused, "read", message).on(request.address()).with_status(head.status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::request::Origin;

    fn head(status: u16, location: &str) -> Head {
        let headers = vec![("location".to_owned(), location.as_bytes().to_vec())];
        Head { status, headers, minor: 1 }
    }

    fn request(scheme: Scheme) -> Request {
        let origin = Origin { scheme, host: "a.com".to_owned(), port: scheme.default_port() };
        Request::new(Method::Get, origin, "/x?sig=PLANTED")
            .with(Header::plain("range", "bytes=0-9"))
            .with(Header::plain("if-match", "\"v\""))
    }

    fn private(scheme: Scheme) -> Request {
        request(scheme)
            .with(Header::secret("x-token", "PLANTED"))
            .with(Header::plain("authorization", "PLANTED"))
            .with(Header::plain("cookie", "PLANTED"))
            .with(Header::plain("host", "a.com"))
    }

    fn names(request: &Request) -> Vec<&str> {
        request.headers.iter().map(|header| header.name.as_str()).collect()
    }

    #[test]
    fn every_kind_of_redirect_keeps_method_and_range() {
        for status in [301, 302, 303, 307, 308] {
            for method in [Method::Get, Method::Head] {
                let from = Request { method, ..request(Scheme::Http) };
                let head = head(status, "/y?z");
                assert!(is_redirect(&head));
                let next = follow(&from, &head, &mut Hops::new()).unwrap();
                assert_eq!((next.method, next.target.as_str()), (method, "/y?z"), "{status}");
                assert_eq!(names(&next), ["range", "if-match"]);
            }
        }
    }

    #[test]
    fn only_statuses_with_a_location_are_redirects() {
        for status in [200, 300, 304, 305, 400] {
            assert!(!is_redirect(&head(status, "/y")), "{status}");
        }
        let bare = Head { headers: Vec::new(), ..head(301, "") };
        assert!(!is_redirect(&bare));
        assert!(follow(&request(Scheme::Http), &bare, &mut Hops::new()).is_err());
    }

    #[test]
    fn secrets_stay_at_their_origin() {
        let from = private(Scheme::Http);
        let next = follow(&from, &head(302, "/y"), &mut Hops::new()).unwrap();
        assert_eq!(next.headers, from.headers);
        for location in ["http://b.com/", "http://a.com:81/", "https://a.com/"] {
            let next = follow(&from, &head(302, location), &mut Hops::new()).unwrap();
            assert_eq!(names(&next), ["range", "if-match"], "{location}");
        }
    }

    #[test]
    fn from_https_to_http_only_what_is_no_secret() {
        let to = head(302, "http://a.com/y");
        assert!(follow(&request(Scheme::Https), &to, &mut Hops::new()).is_ok());
        let error = follow(&private(Scheme::Https), &to, &mut Hops::new()).unwrap_err();
        assert_eq!((error.kind(), error.status()), (ErrorKind::Refused, Some(302)));
        assert!(error.message().contains("https to http"), "{error}");
    }

    #[test]
    fn circles_and_long_chains_end() {
        let mut hops = Hops::new();
        let there = follow(&request(Scheme::Http), &head(302, "/y"), &mut hops).unwrap();
        let error = follow(&there, &head(302, "/x?sig=PLANTED"), &mut hops).unwrap_err();
        assert!(error.message().contains("circle"), "{error}");

        let mut hops = Hops::new();
        let mut at = request(Scheme::Http);
        for hop in 0..MOST_HOPS {
            at = follow(&at, &head(302, &format!("/{hop}")), &mut hops).unwrap();
        }
        let error = follow(&at, &head(302, "/one/more"), &mut hops).unwrap_err();
        assert!(error.message().contains("more than 20"), "{error}");
    }

    #[test]
    fn nothing_secret_is_printed() {
        let mut hops = Hops::new();
        let error =
            follow(&private(Scheme::Https), &head(302, "http://b.com/PLANTED"), &mut hops).unwrap_err();
        assert!(!format!("{error} {error:?} {hops:?}").contains("PLANTED"), "{error}");
        assert_eq!(error.subject(), Some("https://a.com/x"));
    }

    #[test]
    fn other_schemes_and_bodies_are_not_followed() {
        let follow = |from: &Request, location| follow(from, &head(302, location), &mut Hops::new());
        for location in ["ftp://b.com/", "file:///etc/passwd", "http://"] {
            assert_eq!(follow(&request(Scheme::Http), location).unwrap_err().kind(), ErrorKind::Refused);
        }
        let post = Request { method: Method::Post, ..request(Scheme::Http) };
        assert!(follow(&post, "/y").is_err());
    }
}
