//! The variables of the environment that say who we are, as they were when an object was opened.

use std::collections::BTreeMap;
use std::fmt;

use crate::options::Environment;

const NAMES: [&str; 24] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_DEFAULT_REGION",
    "AWS_REGION",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL",
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_STS_REGIONAL_ENDPOINTS",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_EC2_METADATA_DISABLED",
    "AWS_EC2_METADATA_SERVICE_ENDPOINT",
    "AWS_SSO_ENDPOINT",
    "HOME",
    "KVIKIO_WEBHDFS_USERNAME",
];

/// A copy of those variables that are set. Two that are equal lead to the same credentials.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Variables(BTreeMap<&'static str, String>);

impl Variables {
    /// Copies them.
    #[must_use]
    pub fn read(environment: &Environment<'_>) -> Self {
        Self(NAMES.iter().filter_map(|name| Some((*name, environment.get(name)?))).collect())
    }

    /// The value of a variable that is set and not empty.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.even_empty(name).filter(|value| !value.is_empty())
    }

    /// The value of a variable that is set.
    #[must_use]
    pub fn even_empty(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// All that are set and not empty.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str())).filter(|(_, value)| !value.is_empty())
    }

    /// A path with `~/` replaced by the home directory.
    #[must_use]
    pub fn expand(&self, path: &str) -> String {
        match (path.strip_prefix("~/"), self.get("HOME")) {
            (Some(rest), Some(home)) => format!("{}/{rest}", home.trim_end_matches('/')),
            _ => path.to_owned(),
        }
    }

    /// The profile that is chosen.
    #[must_use]
    pub fn profile(&self) -> Option<&str> {
        self.get("AWS_PROFILE").or_else(|| self.get("AWS_DEFAULT_PROFILE"))
    }

    /// The region, as it is set in the environment.
    #[must_use]
    pub fn region(&self) -> Option<&str> {
        self.get("AWS_DEFAULT_REGION").or_else(|| self.get("AWS_REGION"))
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
impl Variables {
    /// Variables for a test.
    pub fn of(pairs: &[(&str, &str)]) -> Self {
        let look = |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
        Self::read(&Environment::of(look))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_print_and_values_do_not() {
        let variables = Variables::of(&[("AWS_SECRET_ACCESS_KEY", "planted"), ("OTHER", "x")]);
        assert_eq!(format!("{variables:?}"), r#"{"AWS_SECRET_ACCESS_KEY"}"#);
        assert_eq!(variables.get("OTHER"), None);
    }

    #[test]
    fn an_empty_variable_counts_only_where_it_may() {
        let variables = Variables::of(&[("AWS_PROFILE", ""), ("AWS_REGION", "r"), ("HOME", "/h/")]);
        assert_eq!((variables.get("AWS_PROFILE"), variables.even_empty("AWS_PROFILE")), (None, Some("")));
        assert_eq!(variables.region(), Some("r"));
        assert_eq!(variables.expand("~/.aws/config"), "/h/.aws/config");
        assert_eq!(variables.expand("/x/~/y"), "/x/~/y");
    }
}
