//! An object of any HTTP server, named by its URL.

use std::ops::Range;
use std::time::SystemTime;

use crate::error::Result;
use crate::remote::endpoint::{Endpoint, Refusal};
use crate::remote::request::{Answer, Header, Method, Origin, Request};
use crate::remote::s3::refused;
use crate::remote::secret::Secret;
use crate::remote::size::{self, Told};
use crate::remote::url::Url;

/// The header that asks for `range`, which is not empty.
#[must_use]
pub fn range_header(range: &Range<u64>) -> Header {
    Header::plain("range", format!("bytes={}-{}", range.start, range.end.saturating_sub(1)))
}

/// One object behind a URL.
#[derive(Debug)]
pub struct HttpEndpoint {
    subject: String,
    origin: Origin,
    target: Secret,
    authorization: Option<Header>,
}

impl HttpEndpoint {
    /// The object at `url`.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::InvalidUrl`] where the URL is none, or of another scheme.
    pub fn open(url: &str) -> Result<Self> {
        let url = Url::parse(url)?;
        let origin = url.origin()?;
        let (subject, authorization) = (url.subject(), url.authorization());
        Ok(Self { subject, origin, target: Secret::new(url.target()), authorization })
    }

    fn with_user(&self, mut request: Request) -> Request {
        request.headers.extend(self.authorization.clone());
        request
    }
}

impl Endpoint for HttpEndpoint {
    fn subject(&self) -> String {
        self.subject.clone()
    }

    fn probes(&self, _now: SystemTime) -> Result<Vec<Request>> {
        let probes = size::probes(&self.origin, self.target.reveal());
        Ok(probes.into_iter().map(|probe| self.with_user(probe)).collect())
    }

    fn size(&self, probe: &Request, answer: &Answer) -> Result<Option<u64>> {
        Ok(match size::told(probe.method, answer).map_err(|error| error.on(&self.subject))? {
            Told::Size(size) => Some(size),
            Told::Unknown | Told::Nothing => None,
        })
    }

    fn range(&self, range: Range<u64>, _now: SystemTime) -> Result<Request> {
        let request = Request::new(Method::Get, self.origin.clone(), self.target.reveal());
        Ok(self.with_user(request.with(range_header(&range))))
    }

    fn refused(&self, answer: &Answer) -> Refusal {
        // Many servers speak S3, or answer as it does; the others say nothing that is understood here.
        Refusal::Final(refused::of_link(answer, &self.subject))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn answer(status: u16) -> Answer {
        let headers = vec![("content-range".to_owned(), b"bytes 0-0/99".to_vec())];
        Answer { status, headers, body: Vec::new() }
    }

    #[test]
    fn a_range_asks_for_its_first_and_last_byte_at_the_url_as_written() {
        let endpoint = HttpEndpoint::open("http://u:planted@h:81/a b?sig=planted").unwrap();
        let request = endpoint.range(5..8, SystemTime::now()).unwrap();
        assert_eq!(request.method, Method::Get);
        assert_eq!(request.origin.to_string(), "h:81");
        assert_eq!(request.target, "/a%20b?sig=planted");
        assert_eq!(request.headers[0], Header::plain("range", "bytes=5-7"));
        assert_eq!((request.headers[1].name.as_str(), request.headers[1].is_secret), ("authorization", true));
        let shown = format!("{endpoint:?} {} {request:?}", endpoint.subject());
        assert!(!shown.contains("planted"), "{shown}");
    }

    #[test]
    fn the_size_is_asked_for_by_one_byte_then_by_head() {
        let endpoint = HttpEndpoint::open("http://u@h/x").unwrap();
        let probes = endpoint.probes(SystemTime::now()).unwrap();
        let asked: Vec<_> = probes.iter().map(|probe| (probe.method, probe.headers.len())).collect();
        assert_eq!(asked, [(Method::Get, 2), (Method::Head, 1)]);
        assert_eq!(endpoint.size(&probes[0], &answer(206)).unwrap(), Some(99));
        assert_eq!(endpoint.size(&probes[0], &answer(200)).unwrap(), None);
    }

    #[test]
    fn a_refusal_is_final_and_named() {
        let endpoint = HttpEndpoint::open("http://h/x").unwrap();
        let Refusal::Final(error) = endpoint.refused(&answer(404)) else { panic!("not final") };
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(error.to_string(), "read http://h/x: The requested URL returned error: 404");
        let mut expired = answer(403);
        expired.body =
            b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>".to_vec();
        let Refusal::Final(error) = endpoint.refused(&expired) else { panic!("not final") };
        assert!(error.message().contains("this presigned link expired: make a new one"), "{error}");
    }
}
