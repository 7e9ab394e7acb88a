//! Openings: which service an address is taken for, who is asked, and what holds for the reads that follow.
#![allow(clippy::unwrap_used)] // A test that cannot be set up has failed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kvikio::{
    EndpointType, Engine, Environment, ErrorKind, Key, Options, Platform, Remote, S3Settings, Secret, Value,
};
use kvikio_testkit::conformance::pattern;
use kvikio_testkit::server::{Fault, Script, Server};

const LEN: usize = 10_000;

/// Means in an environment of these variables and no others.
fn remote(variables: &[(&str, &str)]) -> Remote {
    let engine = Engine::new(Platform::of(None, None, "/".as_ref()), 2);
    let mut all: BTreeMap<&str, &str> = BTreeMap::from([("AWS_EC2_METADATA_DISABLED", "true")]);
    all.extend(variables.iter().copied());
    let environment = Environment::of(|name| all.get(name).map(Into::into));
    Remote::new(&engine, &Options::default(), &environment)
}

const KEYS: [(&str, &str); 3] =
    [("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret"), ("AWS_DEFAULT_REGION", "us-east-1")];

fn with_keys(server: &Server) -> Remote {
    let url = server.url("");
    let mut variables = KEYS.to_vec();
    variables.push(("AWS_ENDPOINT_URL", &url));
    remote(&variables)
}

fn bucket() -> Script {
    Script::new().object("/bucket/a%23b", pattern(LEN, 0))
}

fn is_signed(server: &Server) -> Vec<bool> {
    server.requests().iter().map(|seen| seen.header("authorization").is_some()).collect()
}

#[test]
fn each_service_is_opened_by_name_and_read() {
    let server = Server::start(bucket());
    let (remote, options) = (with_keys(&server), Options::default);
    let url = server.url("/bucket/a%23b");
    let own = S3Settings {
        region: Some("r".to_owned()),
        access_key: Some(Secret::new("k")),
        secret_key: Some(Secret::new("s")),
        ..S3Settings::default()
    };
    for (file, kind) in [
        (remote.open_http(&url, None, options()), EndpointType::Http),
        (remote.open_s3("bucket", "a#b", &own, None, options()), EndpointType::S3),
        (remote.open_s3_url("s3://bucket/a#b", &own, None, options()), EndpointType::S3),
        (remote.open_s3_url(&url, &S3Settings::default(), None, options()), EndpointType::S3),
        (remote.open_s3_public("s3://bucket/a#b", None, options()), EndpointType::S3Public),
        (remote.open_s3_presigned_url(&url, None, options()), EndpointType::S3PresignedUrl),
        (remote.open("s3://bucket/a#b", EndpointType::Auto, None, None, options()), EndpointType::S3),
    ] {
        let file = file.unwrap();
        assert_eq!((file.endpoint_type(), file.size(), file.has_ranges()), (kind, LEN as u64, Some(true)));
        assert!(file.version().unwrap().starts_with("ETag \""));
        let mut buf = vec![0; LEN];
        file.read_exact_into(&mut buf, 0).unwrap();
        assert!(buf == pattern(LEN, 0), "{kind:?}");
    }
}

#[test]
fn s3_is_asked_even_where_the_size_is_given_but_only_if_nobody_named_it() {
    let server = Server::start(bucket());
    let remote = with_keys(&server);
    let url = "s3://bucket/a#b";
    let open = |kind, size| remote.open(url, kind, None, size, Options::default()).unwrap();
    assert_eq!(open(EndpointType::S3, Some(7)).size(), 7);
    assert_eq!(server.requests().len(), 0);
    let file = open(EndpointType::Auto, Some(7));
    assert_eq!((file.size(), server.requests().len()), (7, 1));
    let mut buf = [0; 7];
    file.read_exact_into(&mut buf, 0).unwrap();
    assert_eq!(buf, pattern(LEN, 0)[..7]);
    assert_eq!(file.read_exact_into(&mut [0; 8], 0).unwrap_err().kind(), ErrorKind::OutOfRange);
}

#[test]
fn objects_are_public_only_where_credentials_are_missing_or_refused() {
    let auto =
        |remote: &Remote| remote.open("s3://bucket/a#b", EndpointType::Auto, None, None, Options::default());
    let server = Server::start(bucket().times(2, "/bucket", Fault::Status(403)));
    let file = auto(&with_keys(&server)).unwrap();
    assert_eq!((file.endpoint_type(), file.size()), (EndpointType::S3Public, LEN as u64));
    assert_eq!(is_signed(&server).first(), Some(&true));
    assert_eq!(is_signed(&server).last(), Some(&false));

    let server = Server::start(bucket().always("/bucket", Fault::Status(404)));
    assert_eq!(auto(&with_keys(&server)).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(is_signed(&server).iter().all(|signed| *signed));

    let server = Server::start(bucket().always("/bucket", Fault::Status(403)));
    let url = server.url("");
    let error = auto(&remote(&[("AWS_ENDPOINT_URL", &url)])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(error.message().contains("(without credentials: S3: must provide `aws_region`"), "{error}");
    assert!(is_signed(&server).iter().all(|signed| !signed));
    let error = auto(&with_keys(&server)).unwrap_err();
    assert!(error.message().contains("(and with credentials: "), "{error}");
}

#[test]
fn missing_credentials_are_an_error_at_once() {
    let remote = remote(&[("AWS_DEFAULT_REGION", "us-east-1")]);
    let settings = S3Settings::default();
    let error = remote.open_s3("bucket", "key", &settings, Some(1), Options::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Credentials);
    assert!(error.message().contains("S3: must provide `aws_access_key`"), "{error}");
}

#[test]
fn other_settings_and_means_go_on_with_the_same_version() {
    let server = Server::start(bucket().from(3, "/bucket", Fault::Replaced(pattern(LEN, 1).into())));
    let remote = with_keys(&server);
    let file = remote.open_s3_public("s3://bucket/a#b", None, Options::default()).unwrap();
    let options = Options::default().with(Key::TaskSize, Value::Int(4000)).unwrap();
    let other = file.with(&self::remote(&[]), Arc::new(options.clone()));
    assert_eq!((other.version(), other.settings()), (file.version(), &options));
    other.read_exact_into(&mut [0; 10], 0).unwrap();
    let error = other.with_options(Options::default()).read_exact_into(&mut [0; 10], 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Changed);
}

#[test]
fn a_listener_hears_each_retry_once() {
    static HEARD: AtomicUsize = AtomicUsize::new(0);
    fn listen(line: &str) {
        assert_eq!(line, "KvikIO: Got HTTP code 503. Retrying after 500ms (attempt 1 of 2).");
        HEARD.fetch_add(1, Ordering::SeqCst);
    }
    let options = Options::default().with(Key::HttpMaxAttempts, Value::Int(2)).unwrap();
    let server = Server::start(bucket().always("/bucket", Fault::Status(503)));
    let remote = remote(&[]).telling(listen);
    let url = server.url("/bucket/a%23b");
    let error = remote.open_http(&url, None, options.clone()).unwrap_err();
    assert_eq!((error.status(), error.attempts(), error.is_retryable()), (Some(503), Some(2), true));
    assert_eq!((HEARD.load(Ordering::SeqCst), server.requests().len()), (1, 2));
    let file = remote.open_http(&url, Some(LEN as u64), options).unwrap();
    file.read_exact_into(&mut [0; 10], 0).unwrap_err();
    assert_eq!(HEARD.load(Ordering::SeqCst), 2);
}

#[test]
fn no_secret_is_shown() {
    let settings = S3Settings {
        access_key: Some(Secret::new("planted")),
        secret_key: Some(Secret::new("planted")),
        session_token: Some(Secret::new("planted")),
        region: Some("r".to_owned()),
        ..S3Settings::default()
    };
    let remote = remote(&[("AWS_SECRET_ACCESS_KEY", "planted"), ("AWS_SESSION_TOKEN", "planted")]);
    let signed = "http://h/b/k?X-Amz-Signature=planted";
    let files = [
        remote.open_s3("bucket", "key", &settings, Some(1), Options::default()),
        remote.open_s3_presigned_url(signed, Some(1), Options::default()),
        remote.open_http("http://user:planted@h/x?token=planted", Some(1), Options::default()),
    ];
    for file in files.map(Result::unwrap) {
        let shown = format!("{settings:?} {remote:?} {file:?} {}", file.address());
        assert!(!shown.contains("planted"), "{shown}");
    }
}
