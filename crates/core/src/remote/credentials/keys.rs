//! What a request is signed with.

use std::time::{Duration, Instant, SystemTime};

use crate::remote::secret::Secret;

/// An access key with its secret, and what belongs to them.
#[derive(Debug, Clone)]
pub struct Keys {
    /// Names the key. Not a secret by itself, but it is not printed either.
    pub access_key: Secret,
    /// Signs.
    pub secret_key: Secret,
    /// Goes with temporary keys.
    pub session_token: Option<Secret>,
    /// When the service will no longer take them.
    pub expires: Option<SystemTime>,
    /// When we obtained them.
    pub since: Instant,
}

impl Keys {
    /// Keys that do not expire.
    pub fn new(access_key: impl Into<String>, secret_key: impl Into<String>) -> Self {
        Self {
            access_key: Secret::new(access_key),
            secret_key: Secret::new(secret_key),
            session_token: None,
            expires: None,
            since: Instant::now(),
        }
    }

    /// The same with a session token, where there is one.
    #[must_use]
    pub fn with_token(mut self, token: Option<String>) -> Self {
        self.session_token = token.map(Secret::new);
        self
    }

    /// True where they end within `margin` from `now`.
    #[must_use]
    pub fn end_within(&self, margin: Duration, now: SystemTime) -> bool {
        self.expires.is_some_and(|end| end <= now + margin)
    }
}
