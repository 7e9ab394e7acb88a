//! A transfer's tasks for a carrier: claims as lanes take them, behind the traits of `carrier.rs`.

use std::sync::Arc;

use crate::engine::carrier::{Report, Tasks, Ticket};
use crate::engine::claim::Claim;
use crate::engine::resources::Resources;
use crate::engine::transfer::InFlight;
use crate::error::{Error, ErrorKind};
use crate::memory::device::Marker;
use crate::memory::span::Span;

/// The tasks of `flight`. `block_size`: bytes of one bounce buffer, where the user set them.
pub(crate) fn of(
    flight: &Arc<InFlight>,
    resources: Option<Arc<Resources>>,
    block_size: Option<usize>,
) -> Ticket {
    Ticket::new(Arc::new(Open { flight: flight.clone() }), resources, block_size)
}

/// A flight whose tasks a carrier takes.
#[derive(Debug)]
struct Open {
    flight: Arc<InFlight>,
}

impl Tasks for Open {
    fn count(&self) -> usize {
        self.flight.plan.count()
    }

    fn claim(&self) -> Option<(u64, Span, Box<dyn Report>)> {
        let claim = Claim::next(&self.flight)?;
        let span = self.flight.span.slice(claim.task.start, claim.task.len);
        Some((claim.task.offset, span, Box::new(claim)))
    }

    fn has_more(&self) -> bool {
        self.flight.has_more()
    }

    fn is_wanted(&self) -> bool {
        self.flight.is_wanted()
    }

    fn marker(&self) -> Option<&Marker> {
        self.flight.marker.as_ref()
    }

    fn abort(&self, error: Error) {
        self.flight.abort(error);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.flight.abandon_rest(|| {
            let verb = self.flight.direction.verb();
            Error::new(ErrorKind::Io, verb, "the transfer was given up before all of it was taken on")
        });
    }
}

impl Report for Claim {
    fn add(&self, moved: usize) {
        Self::add(self, moved);
    }

    fn end_of_source(&self) {
        Self::end_of_source(self);
    }

    fn fail(&self, error: Error) {
        Self::fail(self, error);
    }

    fn withdraw(&self) {
        Self::withdraw(self);
    }
}

#[cfg(test)]
mod tests {
    #![allow(unsafe_code)]

    use super::*;
    use crate::engine::plan::{Plan, Request, Route};
    use crate::engine::source::{Abilities, Access, Direction, Source};
    use crate::error::Result;
    use crate::memory::buf::lend_mut;

    /// A source that holds nothing: for tests that only need one to name.
    #[derive(Debug)]
    struct Nothing;

    // SAFETY: it touches no span.
    unsafe impl Source for Nothing {
        fn subject(&self) -> String {
            "nothing".to_owned()
        }
        fn abilities(&self) -> Abilities {
            Abilities { read: true, write: false, alignment: 1 }
        }
        fn fill(&self, _: u64, _: Span, _: Access<'_>) -> Result<usize> {
            Ok(0)
        }
        fn take(&self, _: u64, _: Span, _: Access<'_>) -> Result<()> {
            Ok(())
        }
    }

    /// A source is only asked its name here.
    fn flight(buf: &mut [u8], task_size: usize) -> Arc<InFlight> {
        let request = Request { offset: 100, len: buf.len(), task_size, alignment: None, route: Route::Host };
        let source = Arc::new(Nothing);
        InFlight::new(source, lend_mut(buf), Plan::new(request), Direction::Read, None, true, None)
    }

    #[test]
    fn orders_name_their_part_of_source_and_buffer() {
        let mut buf = vec![0; 10_000];
        let flight = flight(&mut buf, 6000);
        let ticket = of(&flight, None, None);
        assert_eq!(ticket.count(), 2);
        let (first, second) = (ticket.next().unwrap(), ticket.next().unwrap());
        assert!(ticket.next().is_none());
        assert_eq!((first.offset, first.span.len()), (100, 6000));
        assert_eq!((second.offset, second.span.len()), (6100, 4000));
        first.add(6000);
        second.add(4000);
        drop((first, second));
        assert_eq!(flight.result().unwrap(), 10_000);
    }

    #[test]
    fn an_order_dropped_unfinished_fails_the_transfer_and_nothing_more_is_taken() {
        let mut buf = vec![0; 10_000];
        let flight = flight(&mut buf, 5000);
        let ticket = of(&flight, None, None);
        let first = ticket.next().unwrap();
        first.add(10);
        drop(first);
        assert!(ticket.next().is_none() && flight.has_ended());
        assert_eq!(flight.result().unwrap_err().done(), Some(0), "a half is not counted on");
    }

    #[test]
    fn a_task_withdrawn_after_another_failed_leaves_that_one_s_error() {
        let mut buf = vec![0; 10_000];
        let flight = flight(&mut buf, 5000);
        let ticket = of(&flight, None, None);
        let (first, second) = (ticket.next().unwrap(), ticket.next().unwrap());
        assert!(!ticket.has_more());
        second.fail(Error::new(ErrorKind::NotFound, "read", "gone"));
        drop(second);
        assert!(!first.is_wanted() && !flight.has_ended());
        first.withdraw();
        drop(first);
        assert_eq!(flight.result().unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn tickets_lost_with_tasks_untaken_end_the_transfer_with_an_error() {
        let mut buf = vec![0; 10_000];
        let flight = flight(&mut buf, 5000);
        let ticket = of(&flight, None, None);
        let order = ticket.next().unwrap();
        drop(ticket);
        assert!(!flight.has_ended(), "an order is still out, and can still take more");
        order.add(5000);
        drop(order);
        assert!(flight.has_ended());
        assert!(flight.result().unwrap_err().message().contains("given up"));
    }
}
