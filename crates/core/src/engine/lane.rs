//! One worker's part in a transfer: it takes tasks until there are none, and reports each.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::engine::claim::{Claim, Terms};
use crate::engine::plan::Route;
use crate::engine::resources::Resources;
use crate::engine::source::{Access, DeviceOutcome, Direction};
use crate::engine::stage;
use crate::engine::transfer::InFlight;
use crate::error::{Error, ErrorKind, Result};

/// Takes tasks of `flight` until there are none. Whatever happens, the transfer learns of it.
pub(crate) fn run(flight: &Arc<InFlight>, resources: &Resources, terms: &Terms) {
    // A source is somebody's code. Unwinding out of it reports the task as failed (see `Claim`) and stops here, so
    // that a borrowed buffer is never left in flight.
    let outcome = catch_unwind(AssertUnwindSafe(|| take_tasks(flight, resources, terms)));
    let verb = flight.direction.verb();
    match outcome {
        Ok(Ok(())) => {}
        Ok(Err(error)) => flight.abort(error),
        Err(_panic) => flight.abort(Error::new(ErrorKind::Io, verb, "the source panicked")),
    }
}

fn take_tasks(flight: &Arc<InFlight>, resources: &Resources, terms: &Terms) -> Result<()> {
    match (flight.plan.route(), flight.span.device()) {
        (Route::Staged, Some(device)) => {
            stage::run(flight, resources, terms, device);
            Ok(())
        }
        (Route::Direct, Some(device)) => {
            // A lane that comes too late to get a task enters nothing: its failure would be nobody's.
            let Some(first) = Claim::next(flight) else { return Ok(()) };
            let entered = resources.cuda().and_then(|cuda| cuda.enter(device.context));
            if let Err(error) = &entered {
                first.fail(error.clone());
                return Ok(());
            }
            let mut next = Some(first);
            while let Some(claim) = next {
                if !by_source(&claim)
                    && let Err(error) = stage::one(&claim, resources, terms, device)
                {
                    claim.fail(error);
                }
                drop(claim);
                next = Claim::next(flight);
            }
            Ok(())
        }
        _ => {
            let access = terms.access(resources);
            while let Some(claim) = Claim::next(flight) {
                to_host(&claim, access);
            }
            Ok(())
        }
    }
}

fn to_host(claim: &Claim, access: Access<'_>) {
    let (flight, task) = (claim.flight(), claim.task);
    let span = flight.span.slice(task.start, task.len);
    let outcome = match flight.direction {
        Direction::Read => flight.source.fill(task.offset, span, access),
        Direction::Write => flight.source.take(task.offset, span, access).map(|()| task.len),
    };
    report(claim, outcome);
}

/// Offers the task to the source's own path to the device; false where it does not take it.
fn by_source(claim: &Claim) -> bool {
    let (flight, task) = (claim.flight(), claim.task);
    let span = flight.span.slice(task.start, task.len);
    let outcome = match flight.direction {
        Direction::Read => flight.source.fill_device(task.offset, span),
        Direction::Write => flight.source.take_device(task.offset, span),
    };
    match outcome {
        Ok(DeviceOutcome::NotTaken) => return false,
        Ok(DeviceOutcome::Moved(moved)) => report(claim, Ok(moved)),
        Err(error) => report(claim, Err(error)),
    }
    true
}

fn report(claim: &Claim, outcome: Result<usize>) {
    match outcome {
        Ok(moved) => {
            claim.add(moved);
            if moved < claim.task.len && claim.flight().direction == Direction::Read {
                claim.end_of_source();
            }
        }
        Err(error) => claim.fail(error),
    }
}
