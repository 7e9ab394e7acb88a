//! The search, against services that answer from a script.

use std::fs;
use std::sync::Mutex;
use std::time::SystemTime;

use super::*;
use crate::remote::credentials::keyring::Keyring;
use crate::remote::request::{Answer, Request};

type Script = Box<dyn Fn(&Request) -> Option<(u16, String)> + Send + Sync>;

/// Answers what the script says, keeps what was asked; where the script says nothing, nobody listens.
struct Services {
    script: Script,
    asked: Mutex<Vec<(Request, Duration)>>,
}

impl std::fmt::Debug for Services {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Services")
    }
}

impl Fetch for Services {
    fn fetch(&self, request: &Request, limit: usize, patience: Duration) -> Result<Answer> {
        self.asked.lock().unwrap().push((request.clone(), patience));
        let gone = || Error::new(ErrorKind::Connection, "connect", "connection timed out");
        let (status, body) = (self.script)(request).ok_or_else(gone)?;
        assert!(body.len() <= limit);
        Ok(Answer { status, headers: Vec::new(), body: body.into_bytes() })
    }
}

impl Services {
    fn new(script: impl Fn(&Request) -> Option<(u16, String)> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { script: Box::new(script), asked: Mutex::new(Vec::new()) })
    }

    fn none() -> Arc<Self> {
        Self::new(|_| None)
    }

    fn addresses(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        asked
            .iter()
            .map(|(request, _)| format!("{} {}", request.method.as_str(), request.address()))
            .collect()
    }
}

/// A home with the two files, and variables that point there.
struct Home(tempfile::TempDir);

impl Home {
    fn with(config: &str, credentials: &str) -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(home.0.path().join(".aws/sso/cache")).unwrap();
        home.write(".aws/config", config);
        home.write(".aws/credentials", credentials);
        home
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn chain(&self, pairs: &[(&str, &str)], services: &Arc<Services>) -> Chain {
        let mut all = pairs.to_vec();
        all.push(("HOME", self.0.path().to_str().unwrap()));
        Chain::new(Variables::of(&all), None, services.clone())
    }
}

fn found(chain: &Chain) -> Result<Option<String>> {
    Ok(match chain.obtain()? {
        Found::Keys(keys) => {
            assert!(!format!("{keys:?} {chain:?}").contains("planted"));
            let token = keys.session_token.as_ref().map_or("-", |token| token.reveal());
            Some(format!("{} {} {token}", keys.access_key.reveal(), keys.secret_key.reveal()))
        }
        Found::Nothing(_) => None,
    })
}

fn sts(action: &str) -> String {
    format!(
        "<{action}Response><{action}Result><Credentials><AccessKeyId>ASIAROLEROLEROLEROLE</AccessKeyId>\
         <SecretAccessKey>planted</SecretAccessKey><SessionToken>token</SessionToken>\
         <Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></{action}Result></{action}Response>"
    )
}

const ROLE: &str = "arn:aws:iam::123456789012:role/reader";

#[test]
fn profiles_hold_keys_in_either_file() {
    let home = Home::with(
        "[default]\naws_access_key_id=A\naws_secret_access_key=planted-a\n[profile two]\nregion=r\n",
        "[two]\naws_access_key_id=B\naws_secret_access_key=planted-b\naws_session_token=t\n",
    );
    let none = Services::none();
    assert_eq!(found(&home.chain(&[], &none)).unwrap().unwrap(), "A planted-a -");
    let two = home.chain(&[("AWS_PROFILE", "two")], &none);
    assert_eq!(found(&two).unwrap().unwrap(), "B planted-b t");
    let error = found(&home.chain(&[("AWS_PROFILE", "three")], &none)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Credentials);
    assert!(
        error.message().contains("no profile \"three\" in ") && error.message().contains("/.aws/config and ")
    );
    assert!(none.addresses().is_empty());
}

#[test]
fn a_role_is_assumed_with_the_keys_of_its_source() {
    let home = Home::with(
        &format!(
            "[profile role]\nrole_arn={ROLE}\nsource_profile=base\nexternal_id=ext\nregion=eu-west-1\n\
             [profile self]\nrole_arn={ROLE}\nsource_profile=self\naws_access_key_id=AKIASELF\n\
             aws_secret_access_key=planted\n"
        ),
        "[base]\naws_access_key_id=AKIABASE\naws_secret_access_key=planted\n",
    );
    let services = Services::new(|_| Some((200, sts("AssumeRole"))));
    for (profile, host, by) in
        [("role", "sts.eu-west-1.amazonaws.com", "AKIABASE"), ("self", "sts.amazonaws.com", "AKIASELF")]
    {
        let chain = home.chain(&[("AWS_PROFILE", profile)], &services);
        assert_eq!(found(&chain).unwrap().unwrap(), "ASIAROLEROLEROLEROLE planted token");
        let asked = services.asked.lock().unwrap();
        let (request, _) = asked.last().unwrap();
        assert_eq!(request.origin.host, host);
        assert!(request.target.contains("Action=AssumeRole&"), "{}", request.target);
        assert_eq!(request.target.contains("ExternalId=ext"), profile == "role");
        let signed = request.headers.iter().find(|header| header.name == "authorization").unwrap();
        assert!(
            signed.value.contains(&format!("Credential={by}/")) && signed.value.contains("/sts/aws4_request")
        );
        assert!(!format!("{request:?}").contains(by), "headers of token services do not print");
    }
}

#[test]
fn a_role_without_a_source_in_a_circle_or_with_a_code_says_so() {
    let config = format!(
        "[profile a]\nrole_arn={ROLE}\nsource_profile=b\n[profile b]\nrole_arn={ROLE}\nsource_profile=a\n\
         [profile c]\nrole_arn={ROLE}\n[profile d]\nrole_arn={ROLE}\nsource_profile=x\n\
         [profile e]\nrole_arn={ROLE}\nmfa_serial=x\nsource_profile=a\n"
    );
    let home = Home::with(&config, "");
    for (profile, words) in [
        ("a", "has no keys"),
        ("c", "neither source_profile nor a known credential_source"),
        ("d", "there is no source_profile \"x\""),
        ("e", "mfa_serial"),
    ] {
        let error = found(&home.chain(&[("AWS_PROFILE", profile)], &Services::none())).unwrap_err();
        assert!(error.message().contains(words), "{profile}: {error}");
    }
}

#[test]
fn a_web_identity_goes_before_the_files_and_is_read_anew_each_time() {
    let home = Home::with("[default]\naws_access_key_id=A\naws_secret_access_key=planted\n", "");
    let token = home.write("token", "planted-1\n");
    let services = Services::new(|_| Some((200, sts("AssumeRoleWithWebIdentity"))));
    let variables = [
        ("AWS_ROLE_ARN", ROLE),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token.as_str()),
        ("AWS_REGION", "us-west-2"),
    ];
    let chain = home.chain(&variables, &services);
    assert_eq!(found(&chain).unwrap().unwrap(), "ASIAROLEROLEROLEROLE planted token");
    home.write("token", "planted-2\n");
    found(&chain).unwrap();
    let asked = services.asked.lock().unwrap();
    let bodies: Vec<_> = asked.iter().map(|(request, _)| String::from_utf8_lossy(&request.body)).collect();
    assert!(
        bodies[0].contains("WebIdentityToken=planted-1&")
            && bodies[1].contains("WebIdentityToken=planted-2&")
    );
    assert_eq!(asked[0].0.origin.host, "sts.us-west-2.amazonaws.com");
}

#[test]
fn a_source_that_is_set_up_and_fails_is_an_error_and_not_stepped_over() {
    let home = Home::with("[default]\naws_access_key_id=A\naws_secret_access_key=planted\n", "");
    let token = home.write("token", "planted");
    let services = Services::new(|_| {
        let body = "<ErrorResponse><Error><Code>AccessDenied</Code><Message>Not you</Message></Error></ErrorResponse>";
        Some((403, body.to_owned()))
    });
    let variables = [("AWS_ROLE_ARN", ROLE), ("AWS_WEB_IDENTITY_TOKEN_FILE", token.as_str())];
    let error = found(&home.chain(&variables, &services)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Credentials);
    assert!(error.message().contains("Not you") && !error.to_string().contains("planted"), "{error}");
    assert_eq!(services.addresses().len(), 1);
}

#[test]
fn containers_give_keys_with_the_token_of_a_file() {
    let keys =
        r#"{"AccessKeyId":"C","SecretAccessKey":"planted","Token":"t","Expiration":"2099-01-01T00:00:00Z"}"#;
    let home = Home::with("", "");
    let token = home.write("token", "planted-token\n");
    let services = Services::new(move |_| Some((200, keys.to_owned())));
    let pod = home.chain(
        &[
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:5/creds"),
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token.as_str()),
        ],
        &services,
    );
    assert_eq!(found(&pod).unwrap().unwrap(), "C planted t");
    let task = home.chain(&[("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/x")], &services);
    assert_eq!(found(&task).unwrap().unwrap(), "C planted t");
    assert_eq!(services.addresses(), ["GET http://127.0.0.1:5/creds", "GET http://169.254.170.2/v2/x"]);
    let asked = services.asked.lock().unwrap();
    assert_eq!(
        asked[0].0.headers,
        [crate::remote::request::Header::secret("authorization", "planted-token")]
    );
}

#[test]
fn the_machine_s_service_is_asked_last_by_its_second_version() {
    let home = Home::with("", "");
    let services = Services::new(|request| {
        Some(match (request.method.as_str(), request.target.as_str()) {
            ("PUT", "/latest/api/token") => (200, "planted-token".to_owned()),
            ("GET", "/latest/meta-data/iam/security-credentials/") => (200, "role".to_owned()),
            ("GET", "/latest/meta-data/iam/security-credentials/role") => {
                let keys = r#"{"Code":"Success","AccessKeyId":"M","SecretAccessKey":"planted","Token":"t",
                    "Expiration":"2099-01-01T00:00:00Z"}"#;
                (200, keys.to_owned())
            }
            _ => (404, String::new()),
        })
    });
    assert_eq!(found(&home.chain(&[], &services)).unwrap().unwrap(), "M planted t");
    assert!(services.addresses()[0].starts_with("PUT http://169.254.169.254/latest/api/token"));
    let has_token = |request: &Request| request.headers.iter().any(|header| header.value == "planted-token");
    assert!(services.asked.lock().unwrap()[1..].iter().all(|(request, _)| has_token(request)));
    let off = Services::none();
    assert_eq!(found(&home.chain(&[("AWS_EC2_METADATA_DISABLED", "True")], &off)).unwrap(), None);
    assert!(off.addresses().is_empty());
}

#[test]
fn a_machine_without_the_service_costs_one_request_of_a_second_and_is_remembered() {
    let home = Home::with("", "");
    let silent = Services::none();
    let chain = home.chain(&[], &silent);
    for _ in 0..5 {
        let Found::Nothing(places) = chain.obtain().unwrap() else { panic!("keys out of nothing") };
        assert!(places.contains("metadata service") && places.contains(".aws/credentials"), "{places}");
    }
    let asked = silent.asked.lock().unwrap();
    assert_eq!(asked.len(), 1);
    assert!(asked[0].1 <= Duration::from_secs(1));
}

#[test]
fn sso_uses_the_token_of_the_last_login_or_says_how_to_log_in() {
    let config = "[profile s]\nsso_session=corp\nsso_account_id=1\nsso_role_name=r\n\
                  [sso-session corp]\nsso_region=eu-west-1\nsso_start_url=https://x\n\
                  [profile old]\nsso_start_url=https://y\nsso_region=eu-west-1\nsso_account_id=1\nsso_role_name=r\n";
    let home = Home::with(config, "");
    let services = Services::new(|_| {
        let keys = r#"{"roleCredentials":{"accessKeyId":"S","secretAccessKey":"planted","sessionToken":"t",
            "expiration":4070908800000}}"#;
        Some((200, keys.to_owned()))
    });
    for (profile, filed_under) in [("s", "corp"), ("old", "https://y")] {
        let chain = home.chain(&[("AWS_PROFILE", profile)], &services);
        let error = found(&chain).unwrap_err();
        assert!(error.message().contains(&format!("aws sso login --profile {profile}")), "{error}");
        let file = format!(".aws/sso/cache/{}.json", hex_sha1(filed_under.as_bytes()));
        home.write(&file, r#"{"accessToken":"planted-token","expiresAt":"2000-01-01T00:00:00Z"}"#);
        let error = found(&chain).unwrap_err();
        assert!(error.message().contains("aws sso login --profile"), "{error}");
        home.write(&file, r#"{"accessToken":"planted-token","expiresAt":"2099-01-01T00:00:00Z"}"#);
        assert_eq!(found(&chain).unwrap().unwrap(), "S planted t");
    }
    let address = "GET https://portal.sso.eu-west-1.amazonaws.com/federation/credentials";
    assert_eq!(services.addresses(), [address, address]);
}

#[test]
fn a_program_of_the_profile_is_run_as_the_shell_would() {
    let out = r#"{\"Version\":1,\"AccessKeyId\":\"P Q\",\"SecretAccessKey\":\"planted\"}"#;
    let home = Home::with(&format!("[default]\ncredential_process = printf '%s' \"{out}\"\n"), "");
    assert_eq!(found(&home.chain(&[], &Services::none())).unwrap().unwrap(), "P Q planted -");
}

#[test]
fn a_rotated_file_is_seen_when_keys_are_renewed() {
    let file = |key: &str| format!("[default]\naws_access_key_id={key}\naws_secret_access_key=planted\n");
    let home = Home::with("", &file("OLD"));
    let keyring = Keyring::supplied(Arc::new(home.chain(&[], &Services::none())));
    let now = SystemTime::now();
    let name = || keyring.current(now).unwrap().access_key.reveal().to_owned();
    assert_eq!(keyring.ensure(now).unwrap(), None);
    assert_eq!(name(), "OLD");
    home.write(".aws/credentials", &file("NEW"));
    // Keys of this very second are not asked for again.
    std::thread::sleep(Duration::from_millis(1100));
    keyring.renew().unwrap();
    assert_eq!(name(), "NEW");
}

/// The event loops, as they carry the requests of a chain outside of tests.
fn loops() -> Arc<dyn Fetch> {
    let environment = crate::options::Environment::of(|_| None);
    Arc::new(crate::remote::transport::Transport::new(&crate::options::Options::default(), &environment))
}

#[test]
fn a_metadata_service_that_hangs_costs_about_a_second() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", silent.local_addr().unwrap());
    let home = tempfile::tempdir().unwrap();
    let variables =
        [("HOME", home.path().to_str().unwrap()), ("AWS_EC2_METADATA_SERVICE_ENDPOINT", address.as_str())];
    let chain = Chain::new(Variables::of(&variables), None, loops());
    let began = Instant::now();
    assert!(matches!(chain.obtain().unwrap(), Found::Nothing(_)));
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

#[test]
fn the_exchanges_with_a_metadata_service_go_over_the_wire() {
    use std::io::{Read, Write};
    let service = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", service.local_addr().unwrap());
    let served = std::thread::spawn(move || {
        let keys = r#"{"Code":"Success","AccessKeyId":"M","SecretAccessKey":"planted","Token":"t",
            "Expiration":"2099-01-01T00:00:00Z"}"#;
        let mut heads = Vec::new();
        for body in ["planted-token", "role", keys] {
            let (mut stream, _) = service.accept().unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            let reply = format!(
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(reply.as_bytes()).unwrap();
            heads.push(String::from_utf8(head).unwrap().to_lowercase());
        }
        heads
    });
    let home = tempfile::tempdir().unwrap();
    let variables =
        [("HOME", home.path().to_str().unwrap()), ("AWS_EC2_METADATA_SERVICE_ENDPOINT", address.as_str())];
    let chain = Chain::new(Variables::of(&variables), None, loops());
    assert_eq!(found(&chain).unwrap().unwrap(), "M planted t");
    let heads = served.join().unwrap();
    assert!(heads[0].starts_with("put /latest/api/token http/1.1\r\n"), "{}", heads[0]);
    assert!(heads[0].contains("x-aws-ec2-metadata-token-ttl-seconds: 21600\r\n"));
    assert_eq!(heads[0].matches("content-length:").count(), 1, "{}", heads[0]);
    assert!(heads[1..].iter().all(|head| head.contains("x-aws-ec2-metadata-token: planted-token\r\n")));
}
