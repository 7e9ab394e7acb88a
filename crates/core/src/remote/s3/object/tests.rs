//! Requests and refusals of S3 objects, without a server.

use super::*;
use crate::remote::credentials::keyring::{Found, Supply};
use crate::remote::credentials::keys::Keys;

fn keys() -> Keys {
    Keys::new("AKIAPLANTED", "planted").with_token(Some("planted".to_owned()))
}

#[derive(Debug)]
struct Source;

impl Supply for Source {
    fn obtain(&self) -> Result<Found> {
        Ok(Found::Keys(keys()))
    }
}

fn object(keyring: Option<Arc<Keyring>>) -> S3Object {
    let place = Place::of("bucket", "a b", None).unwrap();
    S3Object::new("s3://bucket/a b".to_owned(), place, Some("us-east-1".to_owned()), keyring)
}

fn answer(status: u16, code: &str, extra: &str) -> Answer {
    let text = format!("<Error><Code>{code}</Code><Message>words</Message>{extra}</Error>");
    Answer { status, headers: Vec::new(), body: if code.is_empty() { Vec::new() } else { text.into_bytes() } }
}

fn verdict(refusal: Refusal) -> (&'static str, Error) {
    match refusal {
        Refusal::Final(error) => ("final", error),
        Refusal::Stale(error) => ("stale", error),
        Refusal::Learned(error) => ("learned", error),
    }
}

#[test]
fn requests_are_signed_with_keys_and_plain_without() {
    let now = SystemTime::now();
    let names = |request: &Request| -> Vec<String> {
        request.headers.iter().map(|header| header.name.clone()).collect()
    };
    let signed = object(Some(Keyring::fixed(keys())));
    let request = signed.range(1..3, now).unwrap();
    assert_eq!((request.origin.to_string().as_str(), request.target.as_str()), {
        ("bucket.s3.us-east-1.amazonaws.com", "/a%20b")
    });
    let all = ["range", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token", "authorization"];
    assert_eq!(names(&request), all);
    assert_eq!(names(&object(None).range(1..3, now).unwrap()), ["range"]);
    let probes = signed.probes(now).unwrap();
    assert_eq!(probes.iter().map(|probe| probe.method).collect::<Vec<_>>(), [Method::Get, Method::Head]);
    assert!(probes.iter().all(|probe| names(probe).contains(&"authorization".to_owned())));
    let shown = format!("{signed:?} {request:?} {:?}", signed.range(1..3, now).unwrap());
    assert!(!shown.to_lowercase().contains("planted"), "{shown}");
}

#[test]
fn each_refusal_is_of_its_kind_and_says_the_status() {
    for (status, code, kind) in [
        (403, "InvalidAccessKeyId", ErrorKind::Credentials),
        (403, "SignatureDoesNotMatch", ErrorKind::Credentials),
        (400, "ExpiredToken", ErrorKind::Credentials),
        (403, "RequestTimeTooSkewed", ErrorKind::Credentials),
        (403, "AccessDenied", ErrorKind::PermissionDenied),
        (403, "", ErrorKind::PermissionDenied),
        (401, "", ErrorKind::PermissionDenied),
        (404, "NoSuchKey", ErrorKind::NotFound),
        (404, "NoSuchBucket", ErrorKind::NotFound),
        (404, "", ErrorKind::NotFound),
        (412, "PreconditionFailed", ErrorKind::Changed),
        (416, "InvalidRange", ErrorKind::UnexpectedEof),
        (400, "Strange", ErrorKind::Refused),
        (301, "PermanentRedirect", ErrorKind::Refused),
    ] {
        for keyring in [None, Some(Keyring::fixed(keys()))] {
            let (what, error) = verdict(object(keyring).refused(&answer(status, code, "")));
            assert_eq!((what, error.kind(), error.status()), ("final", kind, Some(status)), "{code}");
            assert!(
                error.message().contains(&format!("The requested URL returned error: {status}")),
                "{error}"
            );
            assert_eq!(error.subject(), Some("s3://bucket/a b"));
        }
    }
}

#[test]
fn keys_that_can_be_renewed_are_stale_where_they_are_refused() {
    let of = |status, code| {
        verdict(object(Some(Keyring::supplied(Arc::new(Source)))).refused(&answer(status, code, ""))).0
    };
    for (status, code) in [(400, "ExpiredToken"), (403, "InvalidAccessKeyId"), (403, "")] {
        assert_eq!(of(status, code), "stale", "{code}");
    }
    for (status, code) in [(403, "AccessDenied"), (404, "NoSuchKey"), (404, "")] {
        assert_eq!(of(status, code), "final", "{code}");
    }
}

#[test]
fn the_region_is_learned_and_used_from_then_on() {
    let object = object(Some(Keyring::fixed(keys())));
    let refusal = answer(400, "AuthorizationHeaderMalformed", "<Region>eu-west-1</Region>");
    assert_eq!(verdict(object.refused(&refusal)).0, "learned");
    let request = object.range(0..1, SystemTime::now()).unwrap();
    assert_eq!(request.origin.host, "bucket.s3.eu-west-1.amazonaws.com");
    let signed = &request.headers.iter().find(|header| header.name == "authorization").unwrap().value;
    assert!(signed.contains("/eu-west-1/s3/aws4_request"));
    // The answer to another request that was on its way.
    assert_eq!(verdict(object.refused(&refusal)).0, "learned");
    let denied = answer(403, "AccessDenied", "<Region>eu-west-1</Region>");
    assert_eq!(verdict(object.refused(&denied)).0, "final");
    let mut head = answer(301, "", "");
    head.headers.push(("x-amz-bucket-region".to_owned(), b"ap-east-1".to_vec()));
    assert_eq!(verdict(object.refused(&head)).0, "learned");
}

#[test]
fn a_wrong_clock_is_set_by_the_service_s() {
    let object = object(Some(Keyring::fixed(keys())));
    let mut refusal = answer(403, "RequestTimeTooSkewed", "");
    assert_eq!(verdict(object.refused(&refusal)).0, "final");
    refusal.headers.push(("date".to_owned(), b"Thu, 01 Jan 2099 00:00:00 GMT".to_vec()));
    assert_eq!(verdict(object.refused(&refusal)).0, "learned");
    let request = object.range(0..1, SystemTime::now()).unwrap();
    let date = &request.headers.iter().find(|header| header.name == "x-amz-date").unwrap().value;
    assert!(date.starts_with("20990101T0000") || date.starts_with("20981231T2359"), "{date}");
    refusal.headers.clear();
    assert_eq!(verdict(object.refused(&refusal)).0, "final");
}
