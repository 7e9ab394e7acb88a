//! How other threads reach an event loop: a list of mails, and a bell that ends the loop's sleep.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

/// Mails for one loop.
#[derive(Debug)]
pub(super) struct Mailbox<M> {
    state: Mutex<State<M>>,
    bell: OwnedFd,
}

#[derive(Debug)]
struct State<M> {
    open: bool,
    mails: Vec<M>,
}

impl<M> Mailbox<M> {
    /// A mailbox that nobody empties yet.
    pub(super) fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { state: Mutex::new(State { open: false, mails: Vec::new() }), bell })
    }

    fn state(&self) -> MutexGuard<'_, State<M>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a mail. Where nobody empties the box, `start` is called first, with further callers held off.
    ///
    /// # Errors
    /// What `start` said, with the mail.
    pub(super) fn post<E>(&self, mail: M, start: impl FnOnce() -> Result<(), E>) -> Result<(), (M, E)> {
        let mut state = self.state();
        if !state.open {
            if let Err(why) = start() {
                return Err((mail, why));
            }
            state.open = true;
        }
        state.mails.push(mail);
        let is_first = state.mails.len() == 1;
        drop(state);
        if is_first {
            self.ring();
        }
        Ok(())
    }

    /// Leaves a mail where somebody empties the box; gives it back where not.
    pub(super) fn reply(&self, mail: M) -> Option<M> {
        self.post(mail, || Err(())).err().map(|(mail, ())| mail)
    }

    fn ring(&self) {
        // A bell that is full has been rung.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// What becomes readable when mail comes.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Stops the bell.
    pub(super) fn silence(&self) {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
    }

    /// Takes all mails.
    pub(super) fn take(&self) -> Vec<M> {
        std::mem::take(&mut self.state().mails)
    }

    /// Nobody empties the box any more: the next post starts somebody. Answers what was left.
    pub(super) fn close(&self) -> Vec<M> {
        let mut state = self.state();
        state.open = false;
        std::mem::take(&mut state.mails)
    }

    /// As [`Mailbox::close`], but only where no mail is there.
    pub(super) fn close_if_empty(&self) -> bool {
        let mut state = self.state();
        state.open &= !state.mails.is_empty();
        !state.open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_mail_starts_somebody_and_a_closed_box_starts_again() {
        let mailbox = Mailbox::new().unwrap();
        assert_eq!(mailbox.reply(1), Some(1));
        assert_eq!(mailbox.post(1, || Err("no thread")), Err((1, "no thread")));
        let mut started = 0;
        for mail in [1, 2] {
            mailbox
                .post(mail, || {
                    started += 1;
                    Ok::<(), ()>(())
                })
                .unwrap();
        }
        assert_eq!((started, mailbox.take()), (1, vec![1, 2]));
        assert_eq!(mailbox.reply(3), None);
        assert!(!mailbox.close_if_empty());
        assert_eq!(mailbox.close(), [3]);
        assert_eq!(mailbox.reply(4), Some(4));
    }
}
