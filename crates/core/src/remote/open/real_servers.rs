//! Objects on real servers. Of those for S3 one verifies every signature, the other keeps every key to the letter.

use kvikio_testkit::servers::hadoop::Hadoop;
use kvikio_testkit::servers::nginx::{Nginx, PASSWORD, USER};
use kvikio_testkit::servers::or_skip;
use kvikio_testkit::servers::python::HttpServer;
use kvikio_testkit::servers::s3::{self as servers, ACCESS_KEY, REGION, S3Server, SECRET_KEY};

use super::*;
use crate::options::{Environment, Options};
use crate::remote::credentials::keyrings::Keyrings;
use crate::remote::endpoint::{Fetch, Refusal};
use crate::remote::escape::{component, path_of_key};
use crate::remote::request::{Answer, Request};
use crate::remote::secret::Secret;
use crate::remote::transport::Transport;
use crate::remote::wire::retry::Policy;

const BUCKET: &str = "hostile-keys";

/// What people have put into names, each of which some client gets wrong.
const NASTY: [&str; 34] = [
    "a+b",
    "a b",
    "a#b",
    "a?b",
    "a%b",
    "a%20b",
    "a%2Fb",
    "a%2fb",
    "a&b",
    "a=b",
    "a;b:c",
    "a@b",
    "it's",
    "x~y[z]",
    "{b}",
    "a|b",
    "a\\b",
    "a^b",
    "a`b",
    "a\"b",
    "<a>",
    "a,b$c!d*e(f)",
    "%",
    "%%",
    "100%",
    "%zz",
    "a%00b",
    "ä/ö ü",
    "日本語",
    "\u{1F600}/x",
    "e\u{301}",
    " lead",
    "trail ",
    "...",
];

/// Keys that servers which store files cannot tell from others, or cannot store.
const NASTIER: [&str; 9] = ["/lead", "a//b", "./x", "../y", "a/./b", "a/../b", "//", "dir/", "tab\there"];

/// Two hundred keys: the nasty ones, and random ones of nasty pieces.
fn keys(nastier: &[&str]) -> Vec<String> {
    let mut keys: Vec<String> = NASTY.iter().chain(nastier).map(|key| (*key).to_owned()).collect();
    let pieces: Vec<char> = "aZ09-_.~!*'()&$@=;:+ ,?#%[]{}<>|\\^`\"äß€漢\u{1F680}".chars().collect();
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    while keys.len() < 200 {
        let mut key = format!("r{}", keys.len());
        for _ in 0..12 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            key.push(pieces[usize::try_from(state % pieces.len() as u64).unwrap()]);
        }
        keys.push(key);
    }
    keys
}

fn body_of(key: &str) -> Vec<u8> {
    format!("the object {key:?} and no other").into_bytes()
}

struct Client {
    transport: Arc<Transport>,
    policy: Arc<Policy>,
}

impl Client {
    fn new() -> Self {
        let options = Options::default();
        let transport = Arc::new(Transport::new(&options, &Environment::of(|_| None)));
        Self { transport, policy: Arc::new(Policy::from(&options)) }
    }

    fn ask(&self, request: &Request) -> Answer {
        self.transport.ask(request, 1 << 16, &self.policy).unwrap().answer
    }

    fn settings(server: &S3Server, secret: &str) -> S3Settings {
        S3Settings {
            region: Some(REGION.to_owned()),
            access_key: Some(Secret::new(ACCESS_KEY)),
            secret_key: Some(Secret::new(secret)),
            endpoint: Some(server.endpoint()),
            ..S3Settings::default()
        }
    }

    fn around<T>(&self, then: impl FnOnce(Surroundings<'_>) -> T) -> T {
        let (variables, keyrings) = (Variables::default(), Keyrings::default());
        let fetch: Arc<dyn Fetch> = self.transport.clone();
        then(Surroundings { variables: &variables, fetch: &fetch, keyrings: &keyrings })
    }

    /// Size and bytes, as they are learned from the first probe and a ranged read.
    fn read(&self, endpoint: &Arc<dyn Endpoint>) -> (Option<u64>, Vec<u8>) {
        let now = SystemTime::now();
        let probe = &endpoint.probes(now).unwrap()[0];
        let size = endpoint.size(probe, &self.ask(probe)).unwrap();
        let range = endpoint.range(0..size.unwrap_or(1), now).unwrap();
        let answer = self.ask(&range);
        assert_eq!(answer.status, 206, "{}: {:?}", endpoint.subject(), String::from_utf8_lossy(&answer.body));
        (size, answer.body)
    }

    fn refusal(&self, endpoint: &Arc<dyn Endpoint>) -> Error {
        let answer = self.ask(&endpoint.range(0..1, SystemTime::now()).unwrap());
        assert!(answer.status >= 400, "{}", answer.status);
        match endpoint.refused(&answer) {
            Refusal::Final(error) => error,
            other => panic!("{other:?}"),
        }
    }
}

/// Reads every key that the server took, by name and by URL; answers how many.
fn every_key_is_its_own_object(server: &S3Server, keys: &[String]) -> usize {
    server.make_bucket(BUCKET);
    let stored =
        keys.iter().filter(|key| server.put(BUCKET, &path_of_key(key.as_bytes()), &body_of(key)) == 200);
    let stored: Vec<&String> = stored.collect();
    let client = Client::new();
    for key in &stored {
        let expected = body_of(key);
        let settings = Client::settings(server, SECRET_KEY);
        let by_name = client.around(|around| s3(BUCKET, key, &settings, around)).unwrap();
        assert_eq!(client.read(&by_name), (Some(expected.len() as u64), expected.clone()), "{key:?}");
        let url = format!("{}/{BUCKET}/{}", server.endpoint(), path_of_key(key.as_bytes()));
        let by_url = client.around(|around| s3_url(&url, &settings, around)).unwrap();
        assert_eq!(client.read(&by_url).1, expected, "{url}");
        let by_s3_url =
            client.around(|around| s3_url(&format!("s3://{BUCKET}/{key}"), &settings, around)).unwrap();
        assert_eq!(client.read(&by_s3_url).1, expected, "{key:?}");
    }
    stored.len()
}

#[test]
fn hostile_keys_are_read_from_a_server_that_verifies_signatures() {
    let Some(server) = or_skip("s3s", servers::verifying()) else { return };
    let stored = every_key_is_its_own_object(&server, &keys(&[]));
    // It stores objects as files, and refuses names that no file can have.
    assert!(stored > 180, "{stored}");
}

#[test]
fn hostile_keys_are_read_from_a_server_that_takes_every_key() {
    let Some(server) = or_skip("moto", servers::moto()) else { return };
    let stored = every_key_is_its_own_object(&server, &keys(&NASTIER));
    assert!(stored > 190, "{stored}");
}

#[test]
fn wrong_secrets_and_missing_objects_are_told_apart() {
    let Some(server) = or_skip("s3s", servers::verifying()) else { return };
    server.make_bucket(BUCKET);
    assert_eq!(server.put(BUCKET, "there", b"bytes"), 200);
    let client = Client::new();
    let of = |bucket: &str, key: &str, secret: &str| {
        let settings = Client::settings(&server, secret);
        client.refusal(&client.around(|around| s3(bucket, key, &settings, around)).unwrap())
    };
    let wrong = of(BUCKET, "there", "planted");
    assert_eq!((wrong.kind(), wrong.status()), (ErrorKind::Credentials, Some(403)));
    assert!(wrong.message().contains("returned error: 403 (SignatureDoesNotMatch"), "{wrong}");
    assert!(!wrong.to_string().contains("planted") && falls_back(&wrong));
    assert_eq!(of(BUCKET, "gone", SECRET_KEY).kind(), ErrorKind::NotFound);
    let variables = Variables::of(&[("AWS_ENDPOINT_URL", &server.endpoint())]);
    let denied = client.refusal(&s3_public(&format!("s3://{BUCKET}/there"), &variables).unwrap());
    assert_eq!((denied.kind(), denied.status()), (ErrorKind::PermissionDenied, Some(403)));
    assert!(denied.message().contains("no credentials were sent"), "{denied}");
}

#[test]
fn an_empty_object_has_the_size_nought() {
    let servers = [or_skip("s3s", servers::verifying()), or_skip("moto", servers::moto())];
    for server in servers.into_iter().flatten() {
        server.make_bucket(BUCKET);
        assert_eq!(server.put(BUCKET, "empty", b""), 200);
        let (client, settings) = (Client::new(), Client::settings(&server, SECRET_KEY));
        let object = client.around(|around| s3(BUCKET, "empty", &settings, around)).unwrap();
        let sizes = object.probes(SystemTime::now()).unwrap();
        let size = sizes.iter().find_map(|probe| object.size(probe, &client.ask(probe)).unwrap());
        assert_eq!(size, Some(0), "{}", server.host);
    }
}

#[test]
fn nginx_serves_odd_names_and_asks_for_the_password_of_the_url() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("private")).unwrap();
    for name in ["a b+c%d#e?f;g.bin", "private/ä"] {
        std::fs::write(folder.path().join(name), b"0123456789").unwrap();
    }
    let Some(nginx) = or_skip("nginx", Nginx::start(folder.path(), None)) else { return };
    let (client, port) = (Client::new(), nginx.port);
    let expected = (Some(10), b"0123456789".to_vec());
    let odd = format!("http://127.0.0.1:{port}/a b+c%25d%23e%3ff;g.bin#part");
    assert_eq!(client.read(&http(&odd).unwrap()), expected);
    let password = component(PASSWORD.as_bytes());
    let private = format!("http://{USER}:{password}@127.0.0.1:{port}/private/ä");
    assert_eq!(client.read(&http(&private).unwrap()), expected);
    let locked = client.refusal(&http(&format!("http://127.0.0.1:{port}/private/ä")).unwrap());
    assert_eq!((locked.kind(), locked.status()), (ErrorKind::PermissionDenied, Some(401)));
    let gone = client.refusal(&http(&format!("http://127.0.0.1:{port}/gone")).unwrap());
    assert_eq!(gone.kind(), ErrorKind::NotFound);
}

#[test]
fn a_server_without_ranges_tells_the_size() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), vec![7; 100_000]).unwrap();
    std::fs::write(folder.path().join("empty"), b"").unwrap();
    let Some(server) = or_skip("python", HttpServer::start(folder.path())) else { return };
    let client = Client::new();
    for (name, size) in [("a", 100_000), ("empty", 0)] {
        let object = http(&format!("http://127.0.0.1:{}/{name}", server.port)).unwrap();
        let probe = &object.probes(SystemTime::now()).unwrap()[0];
        assert_eq!(object.size(probe, &client.ask(probe)).unwrap(), Some(size));
    }
}

#[test]
fn hadoop_serves_files_with_odd_names_and_says_what_is_wrong() {
    let Some(hadoop) = or_skip("hadoop", Hadoop::start()) else { return };
    let client = Client::new();
    let bytes: Vec<u8> = (0..=255).collect();
    for (stored, opened) in [("/a%20b+c.bin", "/a b+c.bin"), ("/d/%C3%A4%23%25", "/d/ä%23%25")] {
        hadoop.put(stored, &bytes);
        for root in ["", "/webhdfs/v1"] {
            let url = format!("http://127.0.0.1:{}{root}{opened}?user.name=me", hadoop.port);
            let file = webhdfs(&url, &Variables::default()).unwrap();
            let probe = &file.probes(SystemTime::now()).unwrap()[0];
            assert_eq!(file.size(probe, &client.ask(probe)).unwrap(), Some(256), "{url}");
            let answer = client.ask(&file.range(10..20, SystemTime::now()).unwrap());
            assert_eq!((answer.status, &answer.body[..]), (200, &bytes[10..20]), "{url}");
        }
    }
    let refusal = |path: &str, range: std::ops::Range<u64>| {
        let url = format!("http://127.0.0.1:{}{path}", hadoop.port);
        let file = webhdfs(&url, &Variables::default()).unwrap();
        match file.refused(&client.ask(&file.range(range, SystemTime::now()).unwrap())) {
            Refusal::Final(error) => error,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refusal("/gone", 0..1).kind(), ErrorKind::NotFound);
    assert_eq!(refusal("/a b+c.bin", 300..301).kind(), ErrorKind::UnexpectedEof);
}

/// A bucket that is elsewhere: refuses whoever signs for another region as AWS does, with a redirect to nowhere.
fn bucket_in(region: &'static str) -> String {
    use std::io::{BufRead, BufReader, Write};
    let service = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let host = service.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in service.incoming() {
            let mut stream = stream.unwrap();
            let lines =
                BufReader::new(stream.try_clone().unwrap()).lines().map_while(std::result::Result::ok);
            let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            let reply = if head.join("\n").contains(&format!("/{region}/s3/aws4_request")) {
                "HTTP/1.1 206 Partial Content\r\ncontent-range: bytes 0-0/77\r\ncontent-length: 1\r\n\
                 connection: close\r\n\r\nx"
                    .to_owned()
            } else {
                format!(
                    "HTTP/1.1 301 Moved Permanently\r\nx-amz-bucket-region: {region}\r\ncontent-length: 0\r\n\
                     connection: close\r\n\r\n"
                )
            };
            stream.write_all(reply.as_bytes()).unwrap();
        }
    });
    format!("http://{host}")
}

#[test]
fn a_bucket_in_another_region_is_found_by_what_the_refusal_says() {
    let client = Client::new();
    let settings = S3Settings {
        region: Some("us-east-1".to_owned()),
        access_key: Some(Secret::new(ACCESS_KEY)),
        secret_key: Some(Secret::new(SECRET_KEY)),
        endpoint: Some(bucket_in("eu-west-1")),
        ..S3Settings::default()
    };
    let object = client.around(|around| s3("bucket", "k", &settings, around)).unwrap();
    let probe = &object.probes(SystemTime::now()).unwrap()[0];
    let answer = client.ask(probe);
    assert_eq!((answer.status, object.size(probe, &answer).unwrap()), (301, None));
    assert!(matches!(object.refused(&answer), Refusal::Learned(_)));
    let probe = &object.probes(SystemTime::now()).unwrap()[0];
    assert_eq!(object.size(probe, &client.ask(probe)).unwrap(), Some(77));
}
