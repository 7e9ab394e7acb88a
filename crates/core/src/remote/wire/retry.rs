//! When a failed attempt is made again, and how long is waited before: a state per range, without a clock.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::options::{Key, Options, Value};
use crate::remote::wire::head::Head;

/// The statuses that are tried again where the user named none.
const STATUSES: [u16; 7] = [408, 425, 429, 500, 502, 503, 504];
/// The wait before the second attempt; it doubles from then on
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// up to this.
const LONGEST_WAIT: Duration = Duration::from_secs(4);
/// The wait after a body was cut of which some bytes had come: the connection is lost, not the server.
const RESUME_WAIT: Duration = Duration::from_millis(50);
/// The longest that a server may make us wait by `Retry-After`.
const LONGEST_ASKED: Duration = Duration::from_secs(60);
/// The most attempts at one range, whatever progress they make.
const MOST_ATTEMPTS: u32 = 100;

/// What holds for all attempts.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Attempts that may follow each other without a byte of progress, at least 1.
    pub max_attempts: u32,
    /// How long connecting may take, TLS included, for each address.
    pub connect_limit: Duration,
    /// How long nothing may come before a connection counts as dead.
    pub idle_limit: Duration,
    /// How long one attempt may take in all; `None` where the user set none, so that a slow body that keeps coming
    /// comes to its end.
    pub total_limit: Option<Duration>,
    statuses: Vec<u16>,
    /// The user set the policy, and expects the waits that are documented: no jitter.
    is_exact: bool,
}

impl From<&Options> for Policy {
    fn from(options: &Options) -> Self {
        let int = |key| match options.get(key) {
            Value::Int(number) => number,
            _ => 1,
        };
        let statuses = match options.get(Key::HttpStatusCodes) {
            Value::Codes(codes) if options.is_set(Key::HttpStatusCodes) => {
                codes.into_iter().filter_map(|code| u16::try_from(code).ok()).collect()
            }
            _ => STATUSES.to_vec(),
        };
        let timeout = Duration::from_secs(int(Key::HttpTimeout));
        let keys = [Key::HttpMaxAttempts, Key::HttpTimeout, Key::HttpStatusCodes];
        Self {
            max_attempts: u32::try_from(int(Key::HttpMaxAttempts)).unwrap_or(u32::MAX).max(1),
            connect_limit: Duration::from_secs(10),
            idle_limit: Duration::from_secs(30),
            total_limit: options.is_set(Key::HttpTimeout).then_some(timeout),
            statuses,
            is_exact: keys.into_iter().any(|key| options.is_set(key)),
        }
    }
}

impl Policy {
    /// True for statuses that are tried again.
    #[must_use]
    pub fn is_retryable(&self, status: u16) -> bool {
        self.statuses.contains(&status)
    }

    /// The wait before the attempt after `failed` ones; `random` is in `0.0..1.0`.
    fn backoff(&self, failed: u32, random: f64) -> Duration {
        let doubled = FIRST_WAIT.saturating_mul(1 << failed.saturating_sub(1).min(16));
        let wait = doubled.min(LONGEST_WAIT);
        if self.is_exact { wait } else { wait.mul_f64(0.5 + 0.5 * random.clamp(0.0, 1.0)) }
    }
}

/// How an attempt failed, where trying again may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A status that [`Policy::is_retryable`].
    Status {
        /// It.
        status: u16,
        /// What the server asked for, by [`retry_after`].
        retry_after: Option<Duration>,
    },
    /// A limit of time was reached: connecting, idle or in all.
    TimedOut,
    /// No connection could be made: no such name, refused, no route, TLS cut off.
    Unreached,
    /// The connection broke within a head or a body.
    Broken,
    /// A kept connection was closed by the server before a byte of the answer: it was tired, not broken.
    Stale,
}

/// What to do after a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Try again after the wait.
    Again {
        /// How long to wait; may be nothing.
        wait: Duration,
    },
    /// The fault is the result.
    GiveUp,
}

/// The attempts at one range.
#[derive(Debug, Clone)]
pub struct Attempts {
    policy: Arc<Policy>,
    /// Failed attempts in all.
    failed: u32,
    /// Failed attempts since a byte has come, those with [`Fault::Stale`] left out.
    dry: u32,
    has_progress: bool,
    notice: Option<String>,
}

impl Attempts {
    /// Before the first attempt.
    #[must_use]
    pub fn new(policy: Arc<Policy>) -> Self {
        Self { policy, failed: 0, dry: 0, has_progress: false, notice: None }
    }

    /// Tells that bytes of the range have come and are right: the count of attempts begins anew.
    pub fn progressed(&mut self) {
        self.has_progress = true;
        self.dry = 0;
    }

    /// Decides after an attempt failed with `fault`; `random` is in `0.0..1.0`, and anew each time.
    pub fn failed(&mut self, fault: Fault, random: f64) -> Decision {
        self.failed = self.failed.saturating_add(1);
        self.notice = None;
        let has_progress = std::mem::take(&mut self.has_progress);
        if self.failed >= MOST_ATTEMPTS.max(self.policy.max_attempts) {
            return Decision::GiveUp;
        }
        if fault == Fault::Stale {
            self.has_progress = has_progress;
            return Decision::Again { wait: Duration::ZERO };
        }
        self.dry += 1;
        if self.dry >= self.policy.max_attempts && !has_progress {
            return Decision::GiveUp;
        }
        let wait = match fault {
            Fault::Broken if has_progress => RESUME_WAIT.mul_f64(random.clamp(0.0, 1.0)),
            Fault::Status { retry_after: Some(asked), .. } => {
                let least = self.policy.backoff(self.dry, random);
                // Those who were told the same time do not all come back at once.
                let spread = if self.policy.is_exact { 0.0 } else { 0.1 * random.clamp(0.0, 1.0) };
                asked.min(LONGEST_ASKED).mul_f64(1.0 + spread).max(least)
            }
            _ => self.policy.backoff(self.dry, random),
        };
        self.notice = Some(self.words(fault, wait));
        Decision::Again { wait }
    }

    /// Attempts made so far, each of which failed.
    #[must_use]
    pub fn made(&self) -> u32 {
        self.failed
    }

    /// The line that tells the user of the wait that was just decided; `None` where nothing is waited for.
    ///
    /// ```text
    /// KvikIO: Got HTTP code 503. Retrying after 500ms (attempt 1 of 2).
    /// ```
    #[must_use]
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    fn words(&self, fault: Fault, wait: Duration) -> String {
        let what = match fault {
            Fault::Status { status, .. } => format!("Got HTTP code {status}"),
            Fault::TimedOut => "Timeout error".to_owned(),
            Fault::Unreached => "Could not connect".to_owned(),
            Fault::Broken | Fault::Stale => "Connection lost".to_owned(),
        };
        let (wait, attempt, most) = (wait.as_millis(), self.dry, self.policy.max_attempts);
        format!("KvikIO: {what}. Retrying after {wait}ms (attempt {attempt} of {most}).")
    }
}

/// How long the server asks to wait: `Retry-After` in seconds or as a date. `None` where it asks nothing readable.
#[must_use]
pub fn retry_after(head: &Head, now: SystemTime) -> Option<Duration> {
    let text = head.header("retry-after")?;
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    Some(date(text)?.duration_since(now).unwrap_or_default())
}

/// A date as HTTP writes it: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn date(text: &str) -> Option<SystemTime> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let [_, day, month, year, time, "GMT"] = words[..] else { return None };
    let number = |text: &str, most: u64| text.parse::<u64>().ok().filter(|number| *number <= most);
    let (day, year) =
        (number(day, 31).filter(|day| *day > 0)?, number(year, 9999).filter(|year| *year >= 1970)?);
    let month = MONTHS.iter().position(|name| *name == month)? as u64;
    let clock: Vec<&str> = time.split(':').collect();
    let [hours, minutes, seconds] = clock[..] else { return None };
    let seconds = number(hours, 23)? * 3600 + number(minutes, 59)? * 60 + number(seconds, 60)?;
    // Years begin in March, so that the day that some of them lack is their last.
    let (year, month) = if month < 2 { (year - 1, month + 10) } else { (year, month - 2) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    // 719,468 days lie between the first of March of the year 0 and 1970.
    UNIX_EPOCH.checked_add(Duration::from_secs(days.checked_sub(719_468)? * 86_400 + seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn policy(settings: &[(Key, Value)]) -> Arc<Policy> {
        let mut options = Options::default();
        for (key, value) in settings {
            options.set(*key, value.clone()).unwrap();
        }
        Arc::new(Policy::from(&options))
    }

    fn attempts(most: u64) -> Attempts {
        Attempts::new(policy(&[(Key::HttpMaxAttempts, Value::Int(most))]))
    }

    fn status(status: u16) -> Fault {
        Fault::Status { status, retry_after: None }
    }

    fn again(millis: u64) -> Decision {
        Decision::Again { wait: MS(millis) }
    }

    #[test]
    fn waits_double_up_to_four_seconds_and_end_with_the_attempts() {
        let mut attempts = attempts(6);
        let decisions: Vec<_> = (0..6).map(|_| attempts.failed(status(503), 0.3)).collect();
        let expected = [again(500), again(1000), again(2000), again(4000), again(4000), Decision::GiveUp];
        assert_eq!(decisions, expected);
        assert_eq!((attempts.made(), attempts.notice()), (6, None));
    }

    #[test]
    fn one_attempt_is_one_attempt() {
        assert_eq!(attempts(1).failed(Fault::TimedOut, 0.5), Decision::GiveUp);
    }

    #[test]
    fn where_nothing_is_set_waits_are_spread_and_three_attempts_made() {
        let policy = policy(&[]);
        let wait = |random| Attempts::new(policy.clone()).failed(status(503), random);
        assert_eq!((wait(0.0), wait(1.0)), (again(250), again(500)));
        let mut attempts = Attempts::new(policy.clone());
        let count = (0..).take_while(|_| attempts.failed(Fault::Broken, 0.5) != Decision::GiveUp).count();
        assert_eq!(count, 2);
        assert_eq!((policy.total_limit, policy.idle_limit), (None, Duration::from_secs(30)));
    }

    #[test]
    fn the_notice_is_the_line_that_users_know() {
        let mut attempts = attempts(2);
        let _ = attempts.failed(status(503), 0.7);
        assert_eq!(
            attempts.notice(),
            Some("KvikIO: Got HTTP code 503. Retrying after 500ms (attempt 1 of 2).")
        );
        assert_eq!(attempts.failed(status(503), 0.7), Decision::GiveUp);
        assert_eq!(attempts.notice(), None);
        let mut attempts = self::attempts(2);
        let _ = attempts.failed(Fault::TimedOut, 0.7);
        assert_eq!(attempts.notice(), Some("KvikIO: Timeout error. Retrying after 500ms (attempt 1 of 2)."));
    }

    #[test]
    fn a_list_of_statuses_is_obeyed_to_the_letter() {
        let ours = policy(&[]);
        for status in STATUSES {
            assert!(ours.is_retryable(status), "{status}");
        }
        for status in [400, 401, 403, 404, 412, 416, 501, 505] {
            assert!(!ours.is_retryable(status), "{status}");
        }
        let theirs = policy(&[(Key::HttpStatusCodes, Value::Codes(vec![404, 503]))]);
        assert!(theirs.is_retryable(404) && theirs.is_retryable(503) && !theirs.is_retryable(500));
        let none = policy(&[(Key::HttpStatusCodes, Value::Codes(Vec::new()))]);
        assert!(!none.is_retryable(503));
    }

    #[test]
    fn a_time_limit_holds_only_where_the_user_set_it() {
        let policy = policy(&[(Key::HttpTimeout, Value::Int(7))]);
        assert_eq!(policy.total_limit, Some(Duration::from_secs(7)));
    }

    #[test]
    fn what_the_server_asks_for_is_waited_for_within_reason() {
        let wait = |seconds| {
            let retry_after = Some(Duration::from_secs(seconds));
            attempts(9).failed(Fault::Status { status: 503, retry_after }, 0.9)
        };
        assert_eq!((wait(0), wait(2), wait(3600)), (again(500), again(2000), again(60_000)));
        let mut spread = Attempts::new(policy(&[]));
        let fault = Fault::Status { status: 503, retry_after: Some(Duration::from_secs(10)) };
        assert_eq!(spread.failed(fault, 1.0), again(11_000));
    }

    #[test]
    fn a_body_cut_often_comes_to_its_end_and_one_cut_always_does_not_go_on_for_ever() {
        let mut attempts = attempts(3);
        for _ in 0..50 {
            attempts.progressed();
            assert!(
                matches!(attempts.failed(Fault::Broken, 1.0), Decision::Again { wait } if wait <= MS(50))
            );
        }
        assert!(
            matches!(attempts.failed(Fault::Broken, 0.0), Decision::Again { .. }),
            "a second without a byte"
        );
        assert_eq!(attempts.failed(Fault::Broken, 0.0), Decision::GiveUp, "a third");
        let mut attempts = self::attempts(3);
        let forever = (0..1000).take_while(|_| {
            attempts.progressed();
            attempts.failed(Fault::Broken, 0.0) != Decision::GiveUp
        });
        assert_eq!(forever.count(), 99);
    }

    #[test]
    fn a_tired_connection_costs_nothing() {
        let mut attempts = attempts(2);
        for _ in 0..20 {
            assert_eq!(attempts.failed(Fault::Stale, 0.5), again(0));
            assert_eq!(attempts.notice(), None);
        }
        assert_eq!(attempts.failed(status(503), 0.5), again(500));
        assert_eq!(attempts.failed(status(503), 0.5), Decision::GiveUp);
        let mut attempts = self::attempts(2);
        attempts.progressed();
        let _ = attempts.failed(Fault::Stale, 0.5);
        assert_eq!(attempts.failed(Fault::Broken, 1.0), again(50), "nor the progress made before");
    }

    #[test]
    fn retry_after_is_read_as_seconds_and_as_a_date() {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_777);
        let read = |text: &str| {
            let headers = vec![("retry-after".to_owned(), text.as_bytes().to_vec())];
            retry_after(&Head { status: 503, headers, minor: 1 }, now).map(|wait| wait.as_secs())
        };
        assert_eq!(
            (read("120"), read("0"), read("99999999999999999999")),
            (Some(120), Some(0), Some(u64::MAX))
        );
        assert_eq!(read("Sun, 06 Nov 1994 08:50:37 GMT"), Some(60));
        assert_eq!(read("Sun, 06 Nov 1994 08:00:00 GMT"), Some(0), "the past");
        for text in ["", "-1", "1.5", "soon", "Sun, 06 Nov 1994 08:50:37", "Sun, 32 Nov 1994 08:50:37 GMT"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn dates_count_leap_days() {
        for (text, seconds) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
            ("Tue, 29 Feb 2000 00:00:00 GMT", 951_782_400),
            ("Wed, 01 Mar 2000 00:00:00 GMT", 951_868_800),
            ("Mon, 01 Mar 2100 00:00:00 GMT", 4_107_542_400),
        ] {
            assert_eq!(date(text), Some(UNIX_EPOCH + Duration::from_secs(seconds)), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_date_panic(text in "[A-Z][a-z]{2}, [0-9]{1,20} [A-Z][a-z]{2} [0-9]{1,20} [0-9:]{0,20} GMT") {
            let _ = date(&text);
        }

        #[test]
        fn whatever_happens_it_ends(faults in prop::collection::vec((0..5_usize, any::<bool>(), 0.0..1.0_f64), 100)) {
            let mut attempts = attempts(3);
            let mut ended = false;
            for (fault, progressed, random) in faults {
                if progressed { attempts.progressed(); }
                let fault = [Fault::TimedOut, Fault::Unreached, Fault::Broken, Fault::Stale, status(500)][fault];
                match attempts.failed(fault, random) {
                    Decision::Again { wait } => prop_assert!(wait <= LONGEST_WAIT),
                    Decision::GiveUp => { ended = true; break; }
                }
            }
            prop_assert!(ended);
        }
    }
}
