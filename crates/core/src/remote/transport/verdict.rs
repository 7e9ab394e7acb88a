//! What the end of an attempt means: done, again, elsewhere, or an error.

use std::time::{Duration, SystemTime};

use crate::error::{Error, ErrorKind};
use crate::remote::endpoint::Refusal;
use crate::remote::transport::exchange::{Answered, Ending, Exchange, Next, Sink, Work, unasked};
use crate::remote::wire::head::Head;
use crate::remote::wire::redirect;
use crate::remote::wire::retry::{Decision, Fault, retry_after};

impl Exchange {
    /// An attempt has ended; `random` is in `0.0..1.0`, anew each time.
    pub(super) fn ended(&mut self, ending: Ending, random: f64) -> Next {
        if self.landed > 0 {
            self.attempts.progressed();
        }
        let sink = std::mem::replace(&mut self.sink, Sink::None);
        match (ending, sink) {
            (Ending::Body, Sink::Land(head)) => self.body_over(&head, random),
            (Ending::Body, Sink::Collect(head, body)) => self.answered(head, body, random),
            // What a refusal says has come far enough to be told, even where its explanation was cut.
            (Ending::Fault(..), Sink::Collect(head, body)) if head.status >= 400 => {
                self.answered(head, body, random)
            }
            (Ending::Fault(fault, error), _) => self.again(fault, error, random),
            (Ending::Failed(error), _) => self.fail(error),
            (Ending::Body, Sink::None) => self.fail(unasked()),
        }
    }

    /// The body has come to its own end, or to that of the range.
    fn body_over(&mut self, head: &Head, random: f64) -> Next {
        let Work::Range(_, landing) = &self.work else { return Next::Done };
        if landing.missing() == 0 {
            return Next::Done;
        }
        if head.status == 206 && self.landed > 0 {
            // A part of what was asked for, and right: ask for the rest.
            return match self.attempts.failed(Fault::Stale, random) {
                Decision::Again { .. } => Next::Now,
                Decision::GiveUp => self.fail(short(head)),
            };
        }
        self.again(Fault::Broken, short(head), random)
    }

    /// An answer that is no body of an object.
    fn answered(&mut self, head: Head, body: Vec<u8>, random: f64) -> Next {
        if redirect::is_redirect(&head)
            && let Some(request) = &self.request
        {
            return match redirect::follow(request, &head, &mut self.hops) {
                Ok(onward) => {
                    self.onward = Some(onward);
                    Next::Now
                }
                Err(error) => self.fail(error),
            };
        }
        let status = head.status;
        if self.policy().is_retryable(status) {
            let retry_after = retry_after(&head, SystemTime::now());
            let fault = Fault::Status { status, retry_after };
            match self.attempts.failed(fault, random) {
                Decision::Again { wait } => return self.wait(wait),
                Decision::GiveUp => {}
            }
        }
        let target = match &self.work {
            Work::Fetch(_) => return self.reply(head, body),
            Work::Range(target, _) => target.clone(),
        };
        let seen = self.renewals;
        match target.endpoint.refused(&head.into_answer(body)) {
            Refusal::Learned(_) if !std::mem::replace(&mut self.has_learned, true) => Next::Now,
            Refusal::Stale(_) if !std::mem::replace(&mut self.has_renewed, true) => Next::Renew(target, seen),
            Refusal::Learned(error) | Refusal::Stale(error) | Refusal::Final(error) => {
                let is_retryable = self.policy().is_retryable(status);
                let error = error.with_status(status);
                self.fail(if is_retryable { error.retryable() } else { error })
            }
        }
    }

    fn reply(&mut self, head: Head, body: Vec<u8>) -> Next {
        let Work::Fetch(fetching) = &mut self.work else { return Next::Done };
        fetching.weight = None;
        if body.len() > fetching.limit {
            let why = format!("the answer is longer than {} bytes", fetching.limit);
            return self.fail(Error::new(ErrorKind::Unverified, "read", why).with_status(head.status));
        }
        let request = self.request.as_ref().unwrap_or(&fetching.request);
        let answered = Answered { origin: request.origin.clone(), answer: head.into_answer(body) };
        // Nobody may be waiting any more.
        let _ = fetching.reply.try_send(Ok(answered));
        Next::Done
    }

    fn again(&mut self, fault: Fault, error: Error, random: f64) -> Next {
        match self.attempts.failed(fault, random) {
            Decision::Again { wait } => self.wait(wait),
            Decision::GiveUp => self.fail(error.retryable()),
        }
    }

    fn wait(&self, wait: Duration) -> Next {
        if let Some(notice) = self.attempts.notice() {
            tracing::warn!("{notice}");
            if let Some(tell) = self.policy().listener {
                tell(notice);
            }
        }
        if wait.is_zero() { Next::Now } else { Next::After(wait) }
    }

    /// It failed for good.
    pub(super) fn fail(&mut self, error: Error) -> Next {
        let error = error.with_attempts(self.sends.max(1));
        match &self.work {
            Work::Range(_, landing) => landing.fail(error),
            Work::Fetch(fetching) => {
                let error = error.on(fetching.request.address());
                let _ = fetching.reply.try_send(Err(error));
            }
        }
        Next::Done
    }
}

fn short(head: &Head) -> Error {
    let why = "the server's answer ended before the bytes that were asked for";
    Error::new(ErrorKind::Unverified, "read", why).with_status(head.status)
}
