//! What goes before what.

use std::time::Duration;

use super::*;
use crate::remote::request::{Answer, Request};

/// Nobody listens anywhere.
#[derive(Debug)]
struct Nobody;

impl Fetch for Nobody {
    fn fetch(&self, _request: &Request, _limit: usize, _patience: Duration) -> Result<Answer> {
        Err(Error::new(ErrorKind::Connection, "connect", "nobody listens"))
    }
}

fn keys(settings: &S3Settings, pairs: &[(&str, &str)]) -> std::result::Result<String, String> {
    let fetch: Arc<dyn Fetch> = Arc::new(Nobody);
    let (variables, keyrings) = (Variables::of(pairs), Keyrings::default());
    let around = Surroundings { variables: &variables, fetch: &fetch, keyrings: &keyrings };
    let now = SystemTime::now();
    let keyring = settings.keyring(around, now).unwrap().required().map_err(|error| {
        assert_eq!(error.kind(), ErrorKind::Credentials);
        error.message().to_owned()
    })?;
    let keys = keyring.current(now).unwrap();
    let token = keys.session_token.as_ref().map_or("-", |token| token.reveal());
    Ok(format!("{} {} {token}", keys.access_key.reveal(), keys.secret_key.reveal()))
}

fn said(key: Option<&str>, secret: Option<&str>, token: Option<&str>) -> S3Settings {
    S3Settings {
        access_key: key.map(Secret::new),
        secret_key: secret.map(Secret::new),
        session_token: token.map(Secret::new),
        ..S3Settings::default()
    }
}

const ENVIRONMENT: [(&str, &str); 3] =
    [("AWS_ACCESS_KEY_ID", "E"), ("AWS_SECRET_ACCESS_KEY", "e"), ("AWS_SESSION_TOKEN", "et")];

#[test]
fn what_the_caller_says_goes_before_the_environment() {
    let of = |settings: &S3Settings| keys(settings, &ENVIRONMENT).unwrap();
    assert_eq!(of(&said(None, None, None)), "E e et");
    assert_eq!(of(&said(None, None, Some("t"))), "E e t");
    assert_eq!(of(&said(Some("K"), Some("k"), None)), "K k -");
    assert_eq!(of(&said(Some("K"), Some("k"), Some("t"))), "K k t");
    assert_eq!(of(&said(Some("K"), None, None)), "K e -");
    assert_eq!(of(&said(None, Some("k"), None)), "E k et");
    assert_eq!(of(&said(Some("ASIAK"), Some("k"), None)), "ASIAK k et");
}

#[test]
fn what_is_missing_is_named_in_upstream_s_words() {
    let empty = tempfile::tempdir().unwrap();
    let home = ("HOME", empty.path().to_str().unwrap());
    let of = |settings: &S3Settings, pairs: &[(&str, &str)]| {
        let mut all = pairs.to_vec();
        all.push(home);
        keys(settings, &all).unwrap_err()
    };
    let nothing = of(&said(None, None, None), &[]);
    assert!(nothing.starts_with(NO_KEY) && nothing.contains("metadata service"), "{nothing}");
    assert!(of(&said(None, None, None), &[ENVIRONMENT[0]]).starts_with(NO_SECRET));
    assert!(of(&said(None, None, None), &[ENVIRONMENT[1]]).starts_with(NO_KEY));
    assert_eq!(of(&said(Some("K"), None, None), &[]), NO_SECRET);
    assert_eq!(of(&said(None, Some("k"), None), &[]), NO_KEY);
    assert_eq!(of(&said(Some("ASIAK"), Some("k"), None), &[]), NO_TOKEN);
    let wanted = S3Settings::default().region(None, &Variables::of(&[home])).unwrap();
    assert!(wanted.required().unwrap_err().message().starts_with(NO_REGION));
}

#[test]
fn regions_come_from_the_address_the_caller_the_environment_the_profile() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config");
    std::fs::write(&config, "[default]\nregion=of-profile\n[profile p]\nregion=of-p\n").unwrap();
    let file = ("AWS_CONFIG_FILE", config.to_str().unwrap());
    let caller = S3Settings { region: Some("of-caller".to_owned()), ..S3Settings::default() };
    let named = S3Settings { profile: Some("p".to_owned()), ..S3Settings::default() };
    let of = |settings: &S3Settings, address: Option<&str>, pairs: &[(&str, &str)]| {
        let region = settings.region(address.map(str::to_owned), &Variables::of(pairs)).unwrap();
        region.required().unwrap()
    };
    let both = [("AWS_REGION", "second"), ("AWS_DEFAULT_REGION", "first"), file];
    assert_eq!(of(&caller, Some("of-address"), &both), "of-address");
    assert_eq!(of(&caller, None, &both), "of-caller");
    assert_eq!(of(&named, None, &both), "first");
    assert_eq!(of(&named, None, &[both[0]]), "second");
    assert_eq!(of(&named, None, &[file]), "of-p");
    assert_eq!(of(&S3Settings::default(), None, &[file]), "of-profile");
    let bad = S3Settings { region: Some("x.evil/".to_owned()), ..S3Settings::default() };
    assert!(bad.region(None, &Variables::default()).is_err());
}

#[test]
fn settings_do_not_print() {
    let settings = said(Some("planted"), Some("planted"), Some("planted"));
    assert!(!format!("{settings:?}").contains("planted"));
}
