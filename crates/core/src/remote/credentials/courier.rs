//! Lets the credential providers of `reqsign` use our network, our files and our environment.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderValue;
use reqsign_aws_v4::Credential;
use reqsign_core::time::Timestamp;
use reqsign_core::{Context, Env, Error as Trouble, FileRead, HttpSend, ProvideCredential};

use crate::error::{Error, ErrorKind, Result};
use crate::remote::credentials::keys::Keys;
use crate::remote::credentials::variables::Variables;
use crate::remote::endpoint::Fetch;
use crate::remote::refusal::shown;
use crate::remote::request::{Header, Method, Request};
use crate::remote::url::Url;

/// The longest answer of a token service.
const LONGEST: usize = 1 << 20;

/// Asks `provider` for keys, waiting at most `patience` for each answer of a server.
///
/// # Errors
/// [`ErrorKind::Credentials`], with what the provider says.
pub fn ask(
    provider: &impl ProvideCredential<Credential = Credential>,
    variables: &Variables,
    fetch: &Arc<dyn Fetch>,
    patience: Duration,
) -> Result<Option<Keys>> {
    let courier = Courier { fetch: Arc::clone(fetch), patience };
    let context =
        Context::new().with_http_send(courier).with_file_read(Files).with_env(Names(variables.clone()));
    match pollster::block_on(provider.provide_credential(&context)) {
        Ok(credential) => Ok(credential.map(into_keys)),
        Err(trouble) => Err(failed(shown(&trouble.to_string()).unwrap_or_default())),
    }
}

fn failed(words: impl Into<String>) -> Error {
    Error::new(ErrorKind::Credentials, "obtain credentials", words)
}

fn into_keys(credential: Credential) -> Keys {
    let keys = Keys::new(credential.access_key_id, credential.secret_access_key);
    let mut keys = keys.with_token(credential.session_token);
    keys.expires = credential.expires_in.map(Timestamp::as_system_time);
    keys
}

/// The same keys in the form that `reqsign` signs with.
#[must_use]
pub fn from_keys(keys: &Keys) -> Credential {
    Credential {
        access_key_id: keys.access_key.reveal().to_owned(),
        secret_access_key: keys.secret_key.reveal().to_owned(),
        session_token: keys.session_token.as_ref().map(|token| token.reveal().to_owned()),
        expires_in: None,
    }
}

#[derive(Debug)]
struct Courier {
    fetch: Arc<dyn Fetch>,
    patience: Duration,
}

impl HttpSend for Courier {
    async fn http_send(&self, theirs: http::Request<Bytes>) -> reqsign_core::Result<http::Response<Bytes>> {
        let request = ours(&theirs).map_err(|error| Trouble::request_invalid(error.message()))?;
        let answer = self.fetch.fetch(&request, LONGEST, self.patience);
        let answer = answer.map_err(|error| Trouble::unexpected(error.to_string()))?;
        let mut response = http::Response::builder().status(answer.status);
        for (name, value) in &answer.headers {
            if let Ok(value) = HeaderValue::from_bytes(value) {
                response = response.header(name, value);
            }
        }
        response.body(Bytes::from(answer.body)).map_err(|error| Trouble::unexpected(error.to_string()))
    }
}

fn ours(theirs: &http::Request<Bytes>) -> Result<Request> {
    let url = Url::parse(&theirs.uri().to_string())?;
    let method = match theirs.method().as_str() {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        other => return Err(failed(format!("no request of the kind {other} is ever sent"))),
    };
    let mut request = Request::new(method, url.origin()?, url.target());
    for (name, value) in theirs.headers() {
        // Whoever sends the request counts its body.
        if name == "content-length" || name == "host" {
            continue;
        }
        let value = value.to_str().map_err(|_| failed(format!("the header {name} is no text")))?;
        // All of them: most carry a token, and none is worth printing.
        request = request.with(Header::secret(name.as_str(), value));
    }
    request.body = theirs.body().to_vec();
    Ok(request)
}

#[derive(Debug)]
struct Files;

impl FileRead for Files {
    async fn file_read(&self, path: &str) -> reqsign_core::Result<Vec<u8>> {
        std::fs::read(path).map_err(|error| Trouble::config_invalid(format!("{path}: {error}")))
    }
}

#[derive(Debug)]
struct Names(Variables);

impl Env for Names {
    fn var(&self, key: &str) -> Option<String> {
        self.0.get(key).map(str::to_owned)
    }

    fn vars(&self) -> HashMap<String, String> {
        self.0.all().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    fn home_dir(&self) -> Option<PathBuf> {
        self.0.get("HOME").map(PathBuf::from)
    }
}
