//! Asking a server for the size of an object, when it is opened.

use std::sync::Arc;
use std::time::SystemTime;

use crate::error::{Error, ErrorKind, Result};
use crate::remote::endpoint::{Endpoint, Proof, Refusal};
use crate::remote::request::{Method, Request};
use crate::remote::transport::{Answered, Transport};
use crate::remote::wire::check::Version;
use crate::remote::wire::retry::Policy;

/// The most bytes of a probe's answer that are read: the range of one byte, or a refusal's explanation.
const MOST_PROBE: usize = 64 << 10;

/// Who answered a probe.
#[derive(Debug, Clone)]
pub(super) struct Server {
    /// Host, and port where it is not the scheme's own.
    pub(super) host: String,
    /// It sends parts of the object.
    pub(super) has_ranges: bool,
}

/// What the answer to a probe tells.
pub(super) struct Probed {
    pub(super) size: u64,
    pub(super) version: Option<Version>,
    pub(super) server: Server,
}

impl Probed {
    fn of(size: u64, probe: &Request, Answered { answer, origin }: &Answered, proof: Proof) -> Self {
        // Who sends the whole object where a byte was asked for may still say that there are ranges.
        let says_so = answer.header("accept-ranges").is_some_and(|unit| unit.eq_ignore_ascii_case("bytes"));
        let is_so = matches!(answer.status, 206 | 416) || (probe.method == Method::Head && says_so);
        let has_ranges = is_so || proof == Proof::Length;
        let server = Server { host: origin.to_string(), has_ranges };
        Self { size, version: Version::of_answer(answer), server }
    }
}

/// Asks for the size by one request after the other, until one tells it.
///
/// # Errors
/// What the server said, or that it does not tell the size.
pub(super) fn probe(transport: &Transport, endpoint: &dyn Endpoint, policy: &Arc<Policy>) -> Result<Probed> {
    let (mut has_renewed, mut has_learned) = (false, false);
    let mut first_refusal = None;
    'anew: loop {
        for request in endpoint.probes(SystemTime::now()).map_err(|error| error.on(endpoint.subject()))? {
            let answered = transport.ask(&request, MOST_PROBE, policy);
            let answered = match answered {
                Ok(answered) => answered,
                Err(error) => return Err(first_refusal.unwrap_or(error)),
            };
            let answer = &answered.answer;
            // A refusal is explained by the service's own words; that of a range may tell the size.
            let may_tell = answer.status < 300 || answer.status == 416;
            if may_tell && let Some(size) = endpoint.size(&request, answer)? {
                return Ok(Probed::of(size, &request, &answered, endpoint.proof()));
            }
            if answer.status < 300 {
                continue;
            }
            let status = answer.status;
            let error = match endpoint.refused(answer) {
                Refusal::Stale(_) if !has_renewed => {
                    has_renewed = true;
                    endpoint.renew()?;
                    continue 'anew;
                }
                Refusal::Learned(_) if !has_learned => {
                    has_learned = true;
                    continue 'anew;
                }
                Refusal::Final(error) | Refusal::Stale(error) | Refusal::Learned(error) => error,
            };
            let error = error.on(endpoint.subject()).with_status(status);
            if policy.is_retryable(status) {
                // All attempts are spent: another request would meet the same trouble.
                return Err(first_refusal.unwrap_or(error.retryable().with_attempts(policy.max_attempts)));
            }
            first_refusal.get_or_insert(error);
        }
        let subject = endpoint.subject();
        return Err(first_refusal.unwrap_or_else(|| {
            let why = format!("cannot get size of {subject}, content-length not provided by the server");
            Error::new(ErrorKind::Unverified, "open", why).on(subject)
        }));
    }
}
