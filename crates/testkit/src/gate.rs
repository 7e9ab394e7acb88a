//! A source that waits for a signal: what happens while something is in flight becomes testable without a clock.
#![allow(unsafe_code)]

use std::sync::{Arc, Condvar, Mutex};

use kvikio::{Abilities, Access, Error, ErrorKind, Result, Source, Span};

/// What a gated call does once it is let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It fills or takes everything.
    Succeed,
    /// It fails.
    Fail,
    /// It unwinds.
    Panic,
}

#[derive(Debug)]
struct State {
    open: bool,
    entered: usize,
    finished: usize,
    fate: Fate,
}

/// A source whose calls wait until [`Gate::open`].
#[derive(Debug)]
pub struct Gate {
    state: Mutex<State>,
    changed: Condvar,
    bytes: Vec<u8>,
}

impl Gate {
    /// A closed gate before `bytes`.
    #[must_use]
    pub fn closed(bytes: Vec<u8>) -> Arc<Self> {
        let state = State { open: false, entered: 0, finished: 0, fate: Fate::Succeed };
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new(), bytes })
    }

    /// Lets all calls through, those that wait and those to come.
    pub fn open(&self, fate: Fate) {
        let mut state = self.state.lock().unwrap();
        state.open = true;
        state.fate = fate;
        self.changed.notify_all();
    }

    /// Waits until `count` calls have come.
    pub fn wait_entered(&self, count: usize) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |state| state.entered < count).unwrap());
    }

    /// Calls that have come.
    pub fn entered(&self) -> usize {
        self.state.lock().unwrap().entered
    }

    /// Calls that have gone through.
    pub fn finished(&self) -> usize {
        self.state.lock().unwrap().finished
    }

    fn pass(&self) -> Fate {
        let mut state = self.state.lock().unwrap();
        state.entered += 1;
        self.changed.notify_all();
        let mut state = self.changed.wait_while(state, |state| !state.open).unwrap();
        state.finished += 1;
        state.fate
    }
}

// SAFETY: a fill is passed on to `InMemory`, which keeps the promise; nothing is kept.
unsafe impl Source for Gate {
    fn subject(&self) -> String {
        "gate".to_owned()
    }

    fn abilities(&self) -> Abilities {
        Abilities { read: true, write: true, alignment: 4096 }
    }

    fn fill(&self, offset: u64, span: Span, access: Access<'_>) -> Result<usize> {
        match self.pass() {
            Fate::Succeed => kvikio::InMemory::from(self.bytes.clone()).fill(offset, span, access),
            Fate::Fail => Err(Error::new(ErrorKind::Io, "read", "the gate says no")),
            Fate::Panic => panic!("the gate panics on purpose"),
        }
    }

    fn take(&self, _offset: u64, _span: Span, _access: Access<'_>) -> Result<()> {
        match self.pass() {
            Fate::Succeed => Ok(()),
            Fate::Fail => Err(Error::new(ErrorKind::Io, "write", "the gate says no")),
            Fate::Panic => panic!("the gate panics on purpose"),
        }
    }
}
