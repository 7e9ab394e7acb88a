//! One object of S3, with credentials or without.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwapOption;
use reqsign_core::time::Timestamp;

use crate::error::{Error, ErrorKind, Result};
use crate::remote::credentials::keyring::Keyring;
use crate::remote::endpoint::{Endpoint, Refusal};
use crate::remote::http::range_header;
use crate::remote::refusal;
use crate::remote::request::{Answer, Method, Origin, Request};
use crate::remote::s3::place::Place;
use crate::remote::s3::refused::{self, Said};
use crate::remote::s3::sign::sign;
use crate::remote::size::{self, Told};

/// A clock that is wrong by less than this is not why a signature was refused.
const SKEW: i64 = 60;

/// An object of S3.
#[derive(Debug)]
pub struct S3Object {
    subject: String,
    place: Place,
    region: ArcSwapOption<String>,
    /// Whether the region is the service's word. Requests that were on their way when it was learned are refused as
    /// the first was; they too are asked once more.
    has_learned: AtomicBool,
    /// `None`: requests are not signed.
    keyring: Option<Arc<Keyring>>,
    /// Seconds that the service's clock is ahead of ours.
    skew: AtomicI64,
}

impl S3Object {
    /// The object at `place`, named `subject` in messages. Without a keyring it is read as anybody may read it.
    #[must_use]
    pub fn new(subject: String, place: Place, region: Option<String>, keyring: Option<Arc<Keyring>>) -> Self {
        let region = ArcSwapOption::from(region.map(Arc::new));
        Self { subject, place, region, has_learned: AtomicBool::new(false), keyring, skew: AtomicI64::new(0) }
    }

    fn signed(&self, request: Request, now: SystemTime) -> Result<Request> {
        let Some(keyring) = &self.keyring else { return Ok(request) };
        let keys = keyring.current(now).map_err(|error| error.on(&self.subject))?;
        let region = self.region.load();
        let region = region.as_ref().map_or("us-east-1", |region| region.as_str());
        let skew = self.skew.load(Ordering::Relaxed);
        let ahead = Duration::from_secs(skew.unsigned_abs());
        let theirs = if skew < 0 { now.checked_sub(ahead) } else { now.checked_add(ahead) };
        Ok(sign(request, &keys, region, theirs.unwrap_or(now)))
    }

    fn locate(&self) -> (Origin, String) {
        self.place.locate(self.region.load().as_ref().map(|region| region.as_str()))
    }

    /// Takes over the bucket's region; false where the request cannot have been signed for another.
    fn learn_region(&self, answer: &Answer, said: &Said) -> bool {
        let Some(region) = &said.region else { return false };
        if self.region.load().as_ref().is_none_or(|known| known.as_str() != region) {
            self.region.store(Some(Arc::new(region.clone())));
            self.has_learned.store(true, Ordering::Relaxed);
            return true;
        }
        let is_about_regions = match said.words.code.as_deref() {
            Some(code) => matches!(code, "PermanentRedirect" | "AuthorizationHeaderMalformed"),
            None => answer.status != 403,
        };
        is_about_regions && self.has_learned.load(Ordering::Relaxed)
    }

    /// Takes over the service's clock; false where ours agrees with it, and always did.
    fn learn_clock(&self, answer: &Answer, now: SystemTime) -> bool {
        let theirs = answer.header("date").and_then(|date| Timestamp::parse_rfc2822(date).ok());
        let ours =
            now.duration_since(SystemTime::UNIX_EPOCH).ok().and_then(|d| i64::try_from(d.as_secs()).ok());
        let (Some(theirs), Some(ours)) = (theirs, ours) else { return false };
        let skew = theirs.as_second().saturating_sub(ours);
        self.skew.store(skew, Ordering::Relaxed);
        skew.saturating_abs() > SKEW
    }

    fn error(&self, answer: &Answer, said: &Said) -> Error {
        let code = said.words.code.as_deref().unwrap_or_default();
        let of = |kind, advice| refusal::of_kind(kind, answer, &said.words, advice, &self.subject);
        match code {
            "InvalidAccessKeyId" => of(ErrorKind::Credentials, "the service does not know this access key"),
            "SignatureDoesNotMatch" => of(
                ErrorKind::Credentials,
                "the secret key does not belong to the access key, or a proxy changes the request",
            ),
            "ExpiredToken" | "TokenRefreshRequired" | "InvalidToken" => {
                of(ErrorKind::Credentials, "the session token is no longer good: obtain new credentials")
            }
            "RequestTimeTooSkewed" => of(ErrorKind::Credentials, "this machine's clock is wrong"),
            "NoSuchKey" | "NoSuchBucket" | "NoSuchVersion" => of(ErrorKind::NotFound, ""),
            "PermanentRedirect" | "AuthorizationHeaderMalformed" => of(
                ErrorKind::Refused,
                "the bucket is in another region: set aws_region or AWS_DEFAULT_REGION",
            ),
            "AccessDenied" if self.keyring.is_none() => of(
                ErrorKind::PermissionDenied,
                "no credentials were sent: the object may need some, or it is not there",
            ),
            _ => refusal::explain(answer, &said.words, &self.subject),
        }
    }

    /// Whether other keys may be let in where these were not.
    fn is_stale(&self, answer: &Answer, said: &Said) -> bool {
        let Some(keyring) = &self.keyring else { return false };
        if !keyring.can_renew() {
            return false;
        }
        match said.words.code.as_deref() {
            Some("ExpiredToken" | "TokenRefreshRequired" | "InvalidToken" | "InvalidAccessKeyId") => true,
            Some("SignatureDoesNotMatch") => true,
            // The answer to a HEAD has no body: it may be any of them.
            None => matches!(answer.status, 400 | 401 | 403) && answer.body.is_empty(),
            Some(_) => false,
        }
    }
}

impl Endpoint for S3Object {
    fn subject(&self) -> String {
        self.subject.clone()
    }

    fn probes(&self, now: SystemTime) -> Result<Vec<Request>> {
        let (origin, target) = self.locate();
        size::probes(&origin, &target).into_iter().map(|probe| self.signed(probe, now)).collect()
    }

    fn size(&self, probe: &Request, answer: &Answer) -> Result<Option<u64>> {
        Ok(match size::told(probe.method, answer).map_err(|error| error.on(&self.subject))? {
            Told::Size(size) => Some(size),
            Told::Unknown | Told::Nothing => None,
        })
    }

    fn range(&self, range: Range<u64>, now: SystemTime) -> Result<Request> {
        let (origin, target) = self.locate();
        self.signed(Request::new(Method::Get, origin, target).with(range_header(&range)), now)
    }

    fn refused(&self, answer: &Answer) -> Refusal {
        let said = refused::read(answer);
        let error = self.error(answer, &said);
        let may_be_elsewhere = matches!(answer.status, 301 | 302 | 307 | 308 | 400 | 403);
        if may_be_elsewhere && self.learn_region(answer, &said) {
            return Refusal::Learned(error);
        }
        let is_clock = said.words.code.as_deref() == Some("RequestTimeTooSkewed");
        if is_clock && self.learn_clock(answer, SystemTime::now()) {
            return Refusal::Learned(error);
        }
        if self.is_stale(answer, &said) { Refusal::Stale(error) } else { Refusal::Final(error) }
    }

    fn renew(&self) -> Result<()> {
        self.keyring.as_ref().map_or(Ok(()), |keyring| keyring.renew())
    }
}

#[cfg(test)]
mod tests;
