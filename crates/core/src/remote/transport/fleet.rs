//! The event loops of one process, and who of them gets what.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::engine::carrier::Ticket;
use crate::error::{Error, Result};
use crate::process;
use crate::remote::transport::exchange::Fetching;
use crate::remote::transport::mailbox::Mailbox;
use crate::remote::transport::reactor::{Job, Mail, Means, Reactor};
use crate::remote::transport::target::Target;
use crate::remote::transport::weight::Weight;

/// The loops; their threads come with the first work, and are never waited for.
#[derive(Debug)]
pub(super) struct Fleet {
    pub(super) process: u32,
    means: Arc<Means>,
    berths: Vec<Berth>,
}

/// The place of one loop.
#[derive(Debug)]
struct Berth {
    mailbox: Arc<Mailbox<Mail>>,
    /// Tasks on its hands, more or less.
    load: Arc<AtomicUsize>,
}

impl Fleet {
    /// Up to `loops` loops.
    ///
    /// # Errors
    /// Where the system has no descriptors left.
    pub(super) fn new(loops: usize, means: Means) -> Result<Self> {
        let berth = |_| Ok(Berth { mailbox: Arc::new(Mailbox::new()?), load: Arc::default() });
        let berths: std::io::Result<_> = (0..loops.max(1)).map(berth).collect();
        let berths = berths.map_err(|why| {
            let code = why.raw_os_error().unwrap_or(libc::EMFILE);
            Error::from_os("start an event loop", code)
        })?;
        Ok(Self { process: process::id(), means: Arc::new(means), berths })
    }

    /// Hands a transfer to as many loops as it has tasks.
    pub(super) fn carry(&self, ticket: &Ticket, target: &Arc<Target>) {
        let count = ticket.count();
        let mut order: Vec<usize> = (0..self.berths.len()).collect();
        order.sort_by_key(|at| self.berths.get(*at).map(|berth| berth.load.load(Ordering::Relaxed)));
        order.truncate(count.max(1));
        let share = count.div_ceil(order.len().max(1));
        let mut trouble = None;
        let mut taken = false;
        for at in order {
            let Some(berth) = self.berths.get(at) else { continue };
            let weight = Weight::new(&berth.load, share);
            let job = Job { ticket: ticket.clone(), target: target.clone(), share, weight };
            match self.post(at, berth, Mail::Job(job)) {
                Ok(()) => taken = true,
                Err(error) => trouble = Some(error),
            }
        }
        if let (false, Some(error)) = (taken, trouble) {
            ticket.refuse(error);
        }
    }

    /// Hands a small request to the loop that has least to do.
    ///
    /// # Errors
    /// Where no thread can be had.
    pub(super) fn fetch(&self, make: impl FnOnce(Option<Arc<Weight>>) -> Fetching) -> Result<()> {
        let least =
            self.berths.iter().enumerate().min_by_key(|(_, berth)| berth.load.load(Ordering::Relaxed));
        let Some((at, berth)) = least else { return Ok(()) };
        self.post(at, berth, Mail::Fetch(make(Some(Weight::new(&berth.load, 1)))))
    }

    fn post(&self, at: usize, berth: &Berth, mail: Mail) -> Result<()> {
        berth.mailbox.post(mail, || self.start(at, berth)).map_err(|(_, error)| error)
    }

    fn start(&self, at: usize, berth: &Berth) -> Result<()> {
        let trouble = |why: std::io::Error| {
            let code = why.raw_os_error().unwrap_or(libc::EAGAIN);
            Error::from_os("start an event loop", code)
        };
        let seed =
            (u64::from(self.process) << 16) ^ at as u64 ^ (Arc::as_ptr(&self.means) as u64).rotate_left(20);
        let mailbox = berth.mailbox.clone();
        let mut reactor = Reactor::new(mailbox.clone(), self.means.clone(), seed).map_err(trouble)?;
        let body = move || {
            // Whatever unwinds out of a loop, its transfers end: dropping it reports their tasks as failed.
            if catch_unwind(AssertUnwindSafe(|| reactor.run())).is_err() {
                tracing::error!("an event loop panicked");
            }
            drop(mailbox.close());
            drop(reactor);
        };
        let thread = std::thread::Builder::new().name(format!("kvikio-io-{at}"));
        thread.spawn(body).map(|_detached| ()).map_err(trouble)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if self.process == process::id() {
            for berth in &self.berths {
                drop(berth.mailbox.reply(Mail::Stop));
            }
        }
    }
}
