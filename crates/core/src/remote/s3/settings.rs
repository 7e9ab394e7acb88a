//! What a caller may say about S3, and what follows where nothing is said: the region, the server, the keys.

use std::sync::Arc;
use std::time::SystemTime;

use crate::error::{Error, ErrorKind, Result};
use crate::remote::credentials::keyring::Keyring;
use crate::remote::credentials::keyrings::Keyrings;
use crate::remote::credentials::keys::Keys;
use crate::remote::credentials::profiles::Profiles;
use crate::remote::credentials::variables::Variables;
use crate::remote::endpoint::Fetch;
use crate::remote::s3::place::checked_region;
use crate::remote::secret::Secret;

/// What the caller says; it goes before the environment, which goes before the files.
#[derive(Debug, Clone, Default)]
pub struct S3Settings {
    /// The bucket's region.
    pub region: Option<String>,
    /// The access key's name.
    pub access_key: Option<Secret>,
    /// The access key's secret.
    pub secret_key: Option<Secret>,
    /// What goes with temporary keys.
    pub session_token: Option<Secret>,
    /// A server other than AWS's.
    pub endpoint: Option<String>,
    /// A profile of the shared files.
    pub profile: Option<String>,
}

/// What opening needs beside the address.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// The environment.
    pub variables: &'a Variables,
    /// Carries requests to token services.
    pub fetch: &'a Arc<dyn Fetch>,
    /// Shares keys between objects.
    pub keyrings: &'a Keyrings,
}

/// Something that has to be there, or the words for that it is not.
#[derive(Debug)]
pub enum Wanted<T> {
    /// It is there.
    Here(T),
    /// It is nowhere.
    Missing(Error),
}

impl<T> Wanted<T> {
    /// Makes what is missing an error.
    ///
    /// # Errors
    /// Where it is missing.
    pub fn required(self) -> Result<T> {
        match self {
            Self::Here(value) => Ok(value),
            Self::Missing(error) => Err(error),
        }
    }
}

fn missing<T>(words: &str, places: &str) -> Wanted<T> {
    let searched = if places.is_empty() { String::new() } else { format!(" (searched: {places})") };
    Wanted::Missing(Error::new(ErrorKind::Credentials, "open", format!("{words}{searched}")))
}

const NO_REGION: &str = "S3: must provide `aws_region` if AWS_DEFAULT_REGION isn't set.";
const NO_KEY: &str = "S3: must provide `aws_access_key` if AWS_ACCESS_KEY_ID isn't set.";
const NO_SECRET: &str = "S3: must provide `aws_secret_access_key` if AWS_SECRET_ACCESS_KEY isn't set.";
const NO_TOKEN: &str = "When using temporary credentials, AWS_SESSION_TOKEN must be set.";

impl S3Settings {
    /// The server, where it is not AWS.
    #[must_use]
    pub fn endpoint<'a>(&'a self, variables: &'a Variables) -> Option<&'a str> {
        let set = || variables.get("AWS_ENDPOINT_URL_S3").or_else(|| variables.get("AWS_ENDPOINT_URL"));
        self.endpoint.as_deref().or_else(set)
    }

    /// The region: the address's own, the caller's, the environment's, the profile's.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for what is no region; [`ErrorKind::Credentials`] for files that cannot be read.
    pub fn region(&self, of_address: Option<String>, variables: &Variables) -> Result<Wanted<String>> {
        let said = of_address.or_else(|| self.region.clone());
        if let Some(region) = said.or_else(|| variables.region().map(str::to_owned)) {
            return checked_region(region).map(Wanted::Here);
        }
        let profiles = Profiles::read(variables)?;
        let profile = self.profile.as_deref().or_else(|| variables.profile()).unwrap_or("default");
        match profiles.get(profile, "region") {
            Some(region) => checked_region(region.to_owned()).map(Wanted::Here),
            None => Ok(missing(NO_REGION, &format!("AWS_DEFAULT_REGION, AWS_REGION, {}", profiles.files()))),
        }
    }

    /// The keys. May block: a search for them reads files and asks services.
    ///
    /// # Errors
    /// [`ErrorKind::Credentials`] where a source of keys is set up, and fails.
    pub fn keyring(&self, around: Surroundings<'_>, now: SystemTime) -> Result<Wanted<Arc<Keyring>>> {
        let of = |name| around.variables.get(name).map(str::to_owned);
        let own = |secret: &Option<Secret>| secret.as_ref().map(|secret| secret.reveal().to_owned());
        let is_said = self.access_key.is_some() || self.secret_key.is_some();
        let key = own(&self.access_key).or_else(|| of("AWS_ACCESS_KEY_ID"));
        let secret = own(&self.secret_key).or_else(|| of("AWS_SECRET_ACCESS_KEY"));
        let (key, secret) = match (key, secret) {
            // A profile that the caller names goes before the environment, as all that the caller says.
            (Some(key), Some(secret)) if is_said || self.profile.is_none() => (key, secret),
            (key, secret) if is_said => return Ok(missing(no_pair(key.as_deref(), secret.as_deref()), "")),
            (key, secret) => {
                let keyring = around.keyrings.of(around.variables, self.profile.as_deref(), around.fetch);
                let words = no_pair(key.as_deref(), secret.as_deref());
                return Ok(match keyring.ensure(now)? {
                    None => Wanted::Here(keyring),
                    Some(places) => missing(words, &places),
                });
            }
        };
        // A token in the environment belongs to the key in the environment.
        let is_temporary = key.starts_with("ASIA");
        let of_environment =
            if is_temporary || self.access_key.is_none() { of("AWS_SESSION_TOKEN") } else { None };
        let token = own(&self.session_token).or(of_environment);
        if is_temporary && token.is_none() {
            return Ok(missing(NO_TOKEN, ""));
        }
        Ok(Wanted::Here(Keyring::fixed(Keys::new(key, secret).with_token(token))))
    }
}

fn no_pair(key: Option<&str>, secret: Option<&str>) -> &'static str {
    if key.is_some() && secret.is_none() { NO_SECRET } else { NO_KEY }
}

#[cfg(test)]
mod tests;
