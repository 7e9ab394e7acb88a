//! Addresses of all kinds, opened.

use std::time::Duration;

use super::*;
use crate::remote::credentials::keyrings::Keyrings;
use crate::remote::endpoint::Fetch;
use crate::remote::request::{Answer, Request};

/// Nobody listens anywhere.
#[derive(Debug)]
struct Nobody;

impl Fetch for Nobody {
    fn fetch(&self, _request: &Request, _limit: usize, _patience: Duration) -> Result<Answer> {
        Err(Error::new(ErrorKind::Connection, "connect", "nobody listens"))
    }
}

const KEYS: [(&str, &str); 3] =
    [("AWS_ACCESS_KEY_ID", "A"), ("AWS_SECRET_ACCESS_KEY", "planted"), ("AWS_DEFAULT_REGION", "r-1")];

fn with<T>(pairs: &[(&str, &str)], then: impl FnOnce(Surroundings<'_>) -> T) -> T {
    let home = tempfile::tempdir().unwrap();
    let mut all = pairs.to_vec();
    all.push(("HOME", home.path().to_str().unwrap()));
    let (variables, keyrings, fetch) =
        (Variables::of(&all), Keyrings::default(), Arc::new(Nobody) as Arc<dyn Fetch>);
    then(Surroundings { variables: &variables, fetch: &fetch, keyrings: &keyrings })
}

/// Where the endpoint's ranged request goes, and whether it is signed.
fn goes(endpoint: &Arc<dyn Endpoint>) -> (String, bool) {
    let request = endpoint.range(0..1, SystemTime::now()).unwrap();
    let is_signed = request.headers.iter().any(|header| header.name == "authorization");
    (format!("{}://{}{}", request.origin.scheme.as_str(), request.origin, request.target), is_signed)
}

#[test]
fn s3_is_read_with_credentials_where_there_are_some_and_has_a_way_out() {
    with(&KEYS, |around| {
        let opened = open("S3://bucket/a+b?c", EndpointType::Auto, None, around).unwrap();
        assert_eq!(opened.kind, EndpointType::S3);
        let address = "https://bucket.s3.r-1.amazonaws.com/a%2Bb%3Fc".to_owned();
        assert_eq!(goes(&opened.endpoint), (address.clone(), true));
        assert_eq!(goes(&opened.fallback.unwrap()), (address, false));
        assert_eq!(opened.endpoint.subject(), "s3://bucket/a+b?c");
        for (wanted, allowed) in
            [(EndpointType::S3, None), (EndpointType::Auto, Some(&[EndpointType::S3][..]))]
        {
            let opened = open("s3://bucket/k", wanted, allowed, around).unwrap();
            assert!(opened.kind == EndpointType::S3 && opened.fallback.is_none());
        }
    });
}

#[test]
fn s3_is_read_without_credentials_where_there_are_none_and_the_reason_is_kept() {
    with(&[], |around| {
        let opened = open("s3://bucket/k", EndpointType::Auto, None, around).unwrap();
        assert_eq!((opened.kind, opened.fallback.is_none()), (EndpointType::S3Public, true));
        assert_eq!(goes(&opened.endpoint), ("https://bucket.s3.amazonaws.com/k".to_owned(), false));
        assert!(opened.reason.unwrap().message().contains("S3: must provide `aws_region`"));
        let error = open("s3://bucket/k", EndpointType::S3, None, around).unwrap_err();
        assert_eq!((error.kind(), error.subject()), (ErrorKind::Credentials, Some("s3://bucket/k")));
        let only = open("s3://bucket/k", EndpointType::Auto, Some(&[EndpointType::S3]), around);
        assert!(only.unwrap_err().message().contains("S3: must provide"));
    });
}

#[test]
fn a_source_of_keys_that_fails_is_no_reason_to_go_without() {
    with(&[("AWS_PROFILE", "gone"), ("AWS_REGION", "r-1")], |around| {
        let error = open("s3://bucket/k", EndpointType::Auto, None, around).unwrap_err();
        assert!(error.message().contains("no profile \"gone\""), "{error}");
    });
}

#[test]
fn public_objects_are_found_by_endpoint_region_or_name_alone() {
    for (pairs, address) in [
        (&[("AWS_ENDPOINT_URL", "http://127.0.0.1:9000/")][..], "http://127.0.0.1:9000/b/k"),
        (&[("AWS_ENDPOINT_URL", "http://no"), ("AWS_ENDPOINT_URL_S3", "http://h")], "http://h/b/k"),
        (&[("AWS_REGION", "r-2")], "https://s3.r-2.amazonaws.com/b/k"),
        (&[], "https://s3.amazonaws.com/b/k"),
    ] {
        with(pairs, |around| {
            let endpoint = s3_public("s3://b/k", around.variables).unwrap();
            assert_eq!(goes(&endpoint), (address.to_owned(), false));
        });
    }
}

#[test]
fn urls_of_s3_servers_are_signed_and_others_refused() {
    with(&KEYS, |around| {
        let settings = S3Settings { endpoint: Some("http://ignored".to_owned()), ..S3Settings::default() };
        let endpoint = s3_url("http://127.0.0.1:5/b/a%20b?versionId=1", &settings, around).unwrap();
        assert_eq!(goes(&endpoint), ("http://127.0.0.1:5/b/a%20b?versionId=1".to_owned(), true));
        let endpoint = s3("b", "k\n", &settings, around).unwrap();
        assert_eq!(goes(&endpoint), ("http://ignored/b/k%0A".to_owned(), true));
        assert_eq!(endpoint.subject(), "s3://b/k\\n");
        let error = s3_url("ftp://u:planted@h/k", &settings, around).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(error.message(), "Unsupported protocol: ***@h/k");
        let shown = format!("{endpoint:?} {around:?}");
        assert!(!shown.contains("planted"), "{shown}");
    });
}

#[test]
fn the_other_kinds_are_opened_as_they_look() {
    with(&[("KVIKIO_WEBHDFS_USERNAME", "me")], |around| {
        for (url, kind, address) in [
            ("http://h/x y", EndpointType::Http, "http://h/x%20y"),
            (
                "http://h:9870/webhdfs/v1/f",
                EndpointType::WebHdfs,
                "http://h:9870/webhdfs/v1/f?user.name=me&op=OPEN&offset=0&length=1",
            ),
            (
                "https://s3.amazonaws.com/b/k?X-Amz-Algorithm=A&X-Amz-Signature=S",
                EndpointType::S3PresignedUrl,
                "https://s3.amazonaws.com/b/k?X-Amz-Algorithm=A&X-Amz-Signature=S",
            ),
        ] {
            let opened = open(url, EndpointType::Auto, None, around).unwrap();
            assert_eq!((opened.kind, goes(&opened.endpoint)), (kind, (address.to_owned(), false)));
        }
    });
}

#[test]
fn inference_asks_nobody() {
    let of = |pairs: &[(&str, &str)], url| with(pairs, |around| infer(url, around.variables).unwrap());
    assert_eq!(of(&KEYS, "s3://b/k"), EndpointType::S3);
    assert_eq!(of(&[], "s3://b/k"), EndpointType::S3Public);
    assert_eq!(of(&KEYS[..2], "s3://b/k"), EndpointType::S3Public);
    assert_eq!(of(&KEYS[..2], "https://b.s3.r-1.amazonaws.com/k"), EndpointType::S3);
    assert_eq!(of(&[], "http://h/x"), EndpointType::Http);
}

#[test]
fn only_a_refusal_of_the_credentials_leads_to_the_way_out() {
    let error = |kind| Error::new(kind, "open", "words");
    assert!(falls_back(&error(ErrorKind::PermissionDenied).with_status(403)));
    assert!(falls_back(&error(ErrorKind::Credentials).with_status(401)));
    assert!(!falls_back(&error(ErrorKind::NotFound).with_status(404)));
    assert!(!falls_back(&error(ErrorKind::Connection)));
}
