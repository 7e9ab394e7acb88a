//! Where keys are looked for, in AWS's order, when neither the caller nor the environment holds them: web identity,
//! the shared files with all that a profile may name, the container's service, the machine's.
//!
//! The exchanges with AWS's services are those of `reqsign`; what a profile means is worked out here, because `reqsign`
//! knows neither roles, nor quoted commands, nor SSO sessions in profiles. A source that is set up and fails is an
//! error, never a reason to look further: the next source would be somebody else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use reqsign_aws_v4::{
    AssumeRoleCredentialProvider, AssumeRoleWithWebIdentityCredentialProvider, ECSCredentialProvider,
    IMDSv2CredentialProvider, RequestSigner, SSOCredentialProvider, StaticCredentialProvider,
};
use reqsign_core::hash::hex_sha1;
use reqsign_core::{Context, Signer};

use crate::error::{Error, ErrorKind, Result};
use crate::remote::credentials::courier;
use crate::remote::credentials::keyring::{Found, Supply};
use crate::remote::credentials::keys::Keys;
use crate::remote::credentials::profiles::Profiles;
use crate::remote::credentials::program;
use crate::remote::credentials::variables::Variables;
use crate::remote::endpoint::Fetch;

/// AWS's services on the network are waited for so long,
const FAR: Duration = Duration::from_secs(10);
/// those of the machine itself so long: where there is none, nothing answers at all.
const NEAR: Duration = Duration::from_secs(1);
/// A machine without a metadata service is not asked again for so long.
const SILENCE: Duration = Duration::from_secs(60);
/// Profiles that name each other are followed so far.
const DEEPEST: usize = 8;
const SESSION: &str = "kvikio";

/// The search.
#[derive(Debug)]
pub struct Chain {
    variables: Variables,
    profile: Option<String>,
    fetch: Arc<dyn Fetch>,
    silent_since: ArcSwapOption<Instant>,
}

impl Chain {
    /// A search with these variables; `profile` goes before `AWS_PROFILE`.
    #[must_use]
    pub fn new(variables: Variables, profile: Option<String>, fetch: Arc<dyn Fetch>) -> Self {
        Self { variables, profile, fetch, silent_since: ArcSwapOption::empty() }
    }

    /// Whether a source of keys is set up, without asking it. The machine's own service is not asked whether it exists.
    ///
    /// # Errors
    /// [`ErrorKind::Credentials`] where the files cannot be read.
    pub fn has_source(variables: &Variables) -> Result<bool> {
        let pairs = [
            ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"],
            ["AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"],
            ["AWS_CONTAINER_CREDENTIALS_FULL_URI"; 2],
            ["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"; 2],
        ];
        if pairs.iter().any(|pair| pair.iter().all(|name| variables.get(name).is_some())) {
            return Ok(true);
        }
        let profiles = Profiles::read(variables)?;
        let profile = variables.profile().unwrap_or("default");
        let settings =
            ["role_arn", "aws_access_key_id", "sso_session", "sso_start_url", "credential_process"];
        Ok(settings.iter().any(|setting| profiles.get(profile, setting).is_some()))
    }

    fn web_identity(&self) -> Result<Option<Keys>> {
        let names = ("AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE");
        let (Some(role), Some(file)) = (self.variables.get(names.0), self.variables.get(names.1)) else {
            return Ok(None);
        };
        let session = self.variables.get("AWS_ROLE_SESSION_NAME").unwrap_or(SESSION);
        self.by_web_identity(role, file, session, self.variables.region()).map(Some)
    }

    fn by_web_identity(&self, role: &str, file: &str, session: &str, region: Option<&str>) -> Result<Keys> {
        let file = self.variables.expand(file);
        let mut provider =
            AssumeRoleWithWebIdentityCredentialProvider::with_config(role.to_owned(), file.into())
                .with_role_session_name(session.to_owned());
        if let Some(region) = region {
            provider = provider.with_region(region.to_owned());
        }
        if self.is_regional(region) {
            provider = provider.with_regional_sts_endpoint();
        }
        let keys = courier::ask(&provider, &self.variables, &self.fetch, FAR)?;
        keys.ok_or_else(|| failed(format!("{role}: the token service gave no keys")))
    }

    fn is_regional(&self, region: Option<&str>) -> bool {
        region.is_some() && self.variables.get("AWS_STS_REGIONAL_ENDPOINTS") != Some("legacy")
    }

    fn by_profile(&self, profiles: &Profiles) -> Result<Option<Keys>> {
        let named = self.profile.as_deref().or_else(|| self.variables.profile());
        let name = named.unwrap_or("default");
        if profiles.has(name) {
            return self.of_profile(profiles, name, &mut Vec::new());
        }
        match named {
            Some(name) => Err(failed(format!("there is no profile {name:?} in {}", profiles.files()))),
            None => Ok(None),
        }
    }

    fn of_profile(&self, profiles: &Profiles, name: &str, seen: &mut Vec<String>) -> Result<Option<Keys>> {
        let get = |setting| profiles.get(name, setting);
        let is_again = seen.iter().any(|other| other == name);
        if seen.len() >= DEEPEST {
            return Err(failed(format!("the profile {name:?} and others name each other as source_profile")));
        }
        seen.push(name.to_owned());
        // A profile may name itself as the source: then its own keys are meant.
        if let Some(role) = get("role_arn").filter(|_| !is_again) {
            return self.by_role(profiles, name, role, seen).map(Some);
        }
        if let (Some(key), Some(secret)) = (get("aws_access_key_id"), get("aws_secret_access_key")) {
            let token = get("aws_session_token").map(str::to_owned);
            return Ok(Some(Keys::new(key, secret).with_token(token)));
        }
        if get("sso_session").or_else(|| get("sso_start_url")).is_some() {
            return self.by_sso(profiles, name).map(Some);
        }
        get("credential_process").map(program::run).transpose()
    }

    fn by_role(&self, profiles: &Profiles, name: &str, role: &str, seen: &mut Vec<String>) -> Result<Keys> {
        let get = |setting| profiles.get(name, setting);
        let session = get("role_session_name").unwrap_or(SESSION);
        let region = get("region").or_else(|| self.variables.region());
        if let Some(file) = get("web_identity_token_file") {
            return self.by_web_identity(role, file, session, region);
        }
        if get("mfa_serial").is_some() {
            let advice = "asks for a code (mfa_serial): obtain keys with `aws sts assume-role` and pass them";
            return Err(failed(format!("the profile {name:?} {advice}")));
        }
        let source = match (get("source_profile"), get("credential_source")) {
            (Some(source), _) if profiles.has(source) => self.of_profile(profiles, source, seen)?,
            (Some(source), _) => return Err(failed(format!("there is no source_profile {source:?}"))),
            (None, Some("Environment")) => self.environment(),
            (None, Some("Ec2InstanceMetadata")) => self.machine()?,
            (None, Some("EcsContainer")) => self.container()?,
            (None, _) => {
                let words = "has a role_arn but neither source_profile nor a known credential_source";
                return Err(failed(format!("the profile {name:?} {words}")));
            }
        };
        let source =
            source.ok_or_else(|| failed(format!("the source of the profile {name:?} has no keys")))?;
        self.assume(role, session, region, get("external_id"), &source)
    }

    fn assume(
        &self,
        role: &str,
        session: &str,
        region: Option<&str>,
        external_id: Option<&str>,
        source: &Keys,
    ) -> Result<Keys> {
        let credential = courier::from_keys(source);
        let mut known =
            StaticCredentialProvider::new(&credential.access_key_id, &credential.secret_access_key);
        if let Some(token) = &credential.session_token {
            known = known.with_session_token(token);
        }
        let signer = RequestSigner::new("sts", region.unwrap_or("us-east-1"));
        let signer = Signer::new(Context::new(), known, signer);
        let mut provider = AssumeRoleCredentialProvider::new(role.to_owned(), signer)
            .with_role_session_name(session.to_owned());
        if let Some(region) = region {
            provider = provider.with_region(region.to_owned());
        }
        if self.is_regional(region) {
            provider = provider.with_regional_sts_endpoint();
        }
        if let Some(id) = external_id {
            provider = provider.with_external_id(id.to_owned());
        }
        let keys = courier::ask(&provider, &self.variables, &self.fetch, FAR)?;
        keys.ok_or_else(|| failed(format!("{role}: the token service gave no keys")))
    }

    fn by_sso(&self, profiles: &Profiles, name: &str) -> Result<Keys> {
        let session = profiles.get(name, "sso_session");
        let of_session = |setting| session.and_then(|session| profiles.of_session(session, setting));
        let get = |setting| {
            let value = of_session(setting).or_else(|| profiles.get(name, setting));
            value.ok_or_else(|| failed(format!("the profile {name:?} uses SSO and lacks {setting}")))
        };
        // The cached token is filed under the session's name, or the start URL where there is no session. That is the
        // only use that `reqsign` makes of the URL.
        let filed_under = session.map_or_else(|| get("sso_start_url"), Ok)?;
        let login = format!("run `aws sso login --profile {name}`");
        let file = format!("~/.aws/sso/cache/{}.json", hex_sha1(filed_under.as_bytes()));
        if !std::path::Path::new(&self.variables.expand(&file)).exists() {
            return Err(failed(format!("nobody is logged in for the profile {name:?}: {login}")));
        }
        let provider = SSOCredentialProvider::new()
            .with_start_url(filed_under)
            .with_region(get("sso_region")?)
            .with_account_id(get("sso_account_id")?)
            .with_role_name(get("sso_role_name")?);
        let keys = courier::ask(&provider, &self.variables, &self.fetch, FAR);
        let keys = keys.map_err(|error| failed(format!("{}: {login}", error.message())))?;
        keys.ok_or_else(|| failed(format!("the SSO portal gave no keys: {login}")))
    }

    fn environment(&self) -> Option<Keys> {
        let get = |name| self.variables.get(name);
        let keys = Keys::new(get("AWS_ACCESS_KEY_ID")?, get("AWS_SECRET_ACCESS_KEY")?);
        Some(keys.with_token(get("AWS_SESSION_TOKEN").map(str::to_owned)))
    }

    fn container(&self) -> Result<Option<Keys>> {
        let patience = NEAR.saturating_mul(5);
        courier::ask(&ECSCredentialProvider::new(), &self.variables, &self.fetch, patience)
    }

    fn machine(&self) -> Result<Option<Keys>> {
        let mut provider = IMDSv2CredentialProvider::new();
        if let Some(address) = self.variables.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") {
            provider = provider.with_endpoint(address.trim_end_matches('/'));
        }
        courier::ask(&provider, &self.variables, &self.fetch, NEAR)
    }

    /// The machine's own service: where it does not answer, this is no machine of AWS's.
    fn machine_if_any(&self) -> std::result::Result<Keys, String> {
        let is_off = self.variables.get("AWS_EC2_METADATA_DISABLED");
        if is_off.is_some_and(|word| word.eq_ignore_ascii_case("true")) {
            return Err("off by AWS_EC2_METADATA_DISABLED".to_owned());
        }
        if self.silent_since.load().as_ref().is_some_and(|since| since.elapsed() < SILENCE) {
            return Err("did not answer a moment ago".to_owned());
        }
        match self.machine() {
            Ok(Some(keys)) => Ok(keys),
            Ok(None) => Err("no role".to_owned()),
            Err(error) => {
                self.silent_since.store(Some(Arc::new(Instant::now())));
                Err(error.message().to_owned())
            }
        }
    }
}

impl Supply for Chain {
    fn obtain(&self) -> Result<Found> {
        if let Some(keys) = self.web_identity()? {
            return Ok(Found::Keys(keys));
        }
        let profiles = Profiles::read(&self.variables)?;
        if let Some(keys) = self.by_profile(&profiles)? {
            return Ok(Found::Keys(keys));
        }
        if let Some(keys) = self.container()? {
            return Ok(Found::Keys(keys));
        }
        match self.machine_if_any() {
            Ok(keys) => Ok(Found::Keys(keys)),
            Err(words) => Ok(Found::Nothing(format!(
                "the environment, web identity (AWS_WEB_IDENTITY_TOKEN_FILE), profiles in {}, the container's service \
                 (AWS_CONTAINER_CREDENTIALS_RELATIVE_URI), the machine's metadata service ({words})",
                profiles.files()
            ))),
        }
    }
}

fn failed(words: impl Into<String>) -> Error {
    Error::new(ErrorKind::Credentials, "obtain credentials", words)
}

#[cfg(test)]
mod tests;
