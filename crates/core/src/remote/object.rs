//! One remote object as a source: its transfers are run by the event loops.
#![allow(unsafe_code)]

use std::sync::Arc;

use crate::engine::carrier::{Carrier, Ticket};
use crate::engine::plan::{Plan, Request, Route};
use crate::engine::source::{Abilities, Access, Direction, Source};
use crate::engine::ticket;
use crate::engine::transfer::InFlight;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::span::Span;
use crate::options::{Key, Options};
use crate::remote::transport::{Target, Transport};

/// Bytes of one request where nothing is set: large enough that what a request costs is small beside them,
const LARGE: usize = 4 << 20;
/// and not smaller than this, where a smaller read is spread over connections.
const SMALL: usize = 1 << 20;
/// So many requests at once are enough to reach what one object's server gives.
const ENOUGH: usize = 16;

/// A remote object.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    target: Arc<Target>,
    transport: Arc<Transport>,
}

impl Object {
    pub(crate) fn new(target: Arc<Target>, transport: Arc<Transport>) -> Self {
        Self { target, transport }
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// The same object, by another target.
    pub(crate) fn of(&self, target: Target) -> Self {
        Self { target: Arc::new(target), transport: self.transport.clone() }
    }
}

impl Carrier for Object {
    fn carry(&self, ticket: Ticket) {
        self.transport.carry(&ticket, &self.target);
    }
}

// SAFETY: a fill waits for its own transfer, which has let go of the span when it ends; nothing is taken.
unsafe impl Source for Object {
    fn subject(&self) -> String {
        self.target.endpoint.subject()
    }

    fn abilities(&self) -> Abilities {
        Abilities { read: true, write: false, alignment: 1 }
    }

    fn fill(&self, offset: u64, span: Span, _access: Access<'_>) -> Result<usize> {
        let options = Options::default();
        let task_size = self.task_size(span.len(), &options);
        let request = Request { offset, len: span.len(), task_size, alignment: None, route: Route::Host };
        let (source, plan) = (Arc::new(self.clone()), Plan::new(request));
        let flight = InFlight::new(source, span, plan, Direction::Read, None, false, None);
        self.carry(ticket::of(&flight, None, None));
        flight.wait(None);
        flight.result()
    }

    fn take(&self, _offset: u64, _span: Span, _access: Access<'_>) -> Result<()> {
        Err(Error::new(ErrorKind::WrongMode, "write", "remote objects are only read"))
    }

    fn carrier(&self) -> Option<&dyn Carrier> {
        Some(self)
    }

    fn task_size(&self, len: usize, options: &Options) -> usize {
        if options.is_set(Key::TaskSize) {
            return options.task_size();
        }
        len.div_ceil(ENOUGH).clamp(SMALL, LARGE)
    }
}
