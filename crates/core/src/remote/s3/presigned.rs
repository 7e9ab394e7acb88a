//! An object of S3 behind a URL that carries its own signature.

use std::ops::Range;
use std::time::SystemTime;

use crate::error::{Error, ErrorKind, Result};
use crate::remote::endpoint::{Endpoint, Refusal};
use crate::remote::http::range_header;
use crate::remote::request::{Answer, Method, Origin, Request};
use crate::remote::s3::refused;
use crate::remote::secret::Secret;
use crate::remote::size::{self, Told};
use crate::remote::url::Url;

/// The object behind a presigned URL. The signature covers `GET`, so nothing else is ever sent.
#[derive(Debug)]
pub struct PresignedObject {
    subject: String,
    origin: Origin,
    target: Secret,
}

impl PresignedObject {
    /// The object behind `url`, which is sent as it is.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidUrl`] where it is no http(s) URL.
    pub fn open(url: &str) -> Result<Self> {
        let url = Url::parse(url)?;
        Ok(Self { subject: url.subject(), origin: url.origin()?, target: Secret::new(url.target()) })
    }

    fn get(&self) -> Request {
        Request::new(Method::Get, self.origin.clone(), self.target.reveal())
    }
}

impl Endpoint for PresignedObject {
    fn subject(&self) -> String {
        self.subject.clone()
    }

    fn probes(&self, _now: SystemTime) -> Result<Vec<Request>> {
        Ok(vec![self.get().with(size::first_byte())])
    }

    fn size(&self, probe: &Request, answer: &Answer) -> Result<Option<u64>> {
        match size::told(probe.method, answer).map_err(|error| error.on(&self.subject))? {
            Told::Size(size) => Ok(Some(size)),
            Told::Unknown | Told::Nothing => {
                // No other request could tell: the signature allows none.
                let words = "File size information missing on the server side.";
                Err(Error::new(ErrorKind::InvalidInput, "open", words).on(&self.subject))
            }
        }
    }

    fn range(&self, range: Range<u64>, _now: SystemTime) -> Result<Request> {
        Ok(self.get().with(range_header(&range)))
    }

    fn refused(&self, answer: &Answer) -> Refusal {
        Refusal::Final(refused::of_link(answer, &self.subject))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: &str =
        "https://b.s3.amazonaws.com/a%2Fb c?X-Amz-Algorithm=A&X-Amz-Signature=planted&X-Amz-Expires=60";

    fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Answer {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), value.as_bytes().to_vec());
        Answer { status, headers: headers.iter().map(own).collect(), body: body.as_bytes().to_vec() }
    }

    #[test]
    fn only_gets_are_sent_and_the_link_stays_as_it_is() {
        let object = PresignedObject::open(LINK).unwrap();
        let now = SystemTime::now();
        let mut sent = object.probes(now).unwrap();
        sent.push(object.range(0..5, now).unwrap());
        for request in &sent {
            assert_eq!(request.method, Method::Get);
            assert_eq!(
                request.target,
                "/a%2Fb%20c?X-Amz-Algorithm=A&X-Amz-Signature=planted&X-Amz-Expires=60"
            );
        }
        let shown = format!("{object:?} {sent:?} {}", object.subject());
        assert!(!shown.contains("planted"), "{shown}");
    }

    #[test]
    fn a_size_that_nobody_tells_is_an_error() {
        let object = PresignedObject::open(LINK).unwrap();
        let probe = &object.probes(SystemTime::now()).unwrap()[0];
        assert_eq!(
            object.size(probe, &answer(206, &[("content-range", "Bytes 0-0/7")], "")).unwrap(),
            Some(7)
        );
        assert_eq!(object.size(probe, &answer(416, &[("content-range", "bytes */0")], "")).unwrap(), Some(0));
        for headers in [&[("content-range", "bytes 0-0/*")][..], &[]] {
            let error = object.size(probe, &answer(206, headers, "")).unwrap_err();
            assert_eq!(error.message(), "File size information missing on the server side.");
        }
    }

    #[test]
    fn an_expired_link_says_so() {
        let object = PresignedObject::open(LINK).unwrap();
        let body = "<Error><Code>AccessDenied</Code><Message>Request has expired</Message>\
                    <Expires>2026-01-01T00:00:00Z</Expires></Error>";
        let Refusal::Final(error) = object.refused(&answer(403, &[], body)) else { panic!("not final") };
        assert_eq!(error.kind(), ErrorKind::Credentials);
        assert!(error.message().starts_with("The requested URL returned error: 403"), "{error}");
        assert!(error.message().contains("link expired on 2026-01-01T00:00:00Z: make a new one"), "{error}");
        assert!(!error.to_string().contains("planted"));
        let denied = "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>";
        let Refusal::Final(error) = object.refused(&answer(403, &[], denied)) else { panic!("not final") };
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    }
}
