//! From a request to a list of tasks, each with its route. No I/O: a plan is a function of numbers.

use crate::memory::align;

/// How the bytes of a request travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// Between the source and host memory, with nothing between.
    Host,
    /// Between the source and a device, through a bounce buffer.
    Staged,
    /// Between the source and a device, by the source itself (cuFile).
    Direct,
}

/// What to plan for.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// Where in the source.
    pub offset: u64,
    /// How many bytes.
    pub len: usize,
    /// The most bytes of one task, at least 1.
    pub task_size: usize,
    /// Where set, tasks meet at multiples of this power of two (direct I/O), as far as `task_size` allows.
    pub alignment: Option<usize>,
    /// The route.
    pub route: Route,
}

/// One piece of a request: the unit that is scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// Its number in the plan, from 0.
    pub index: usize,
    /// Where in the source.
    pub offset: u64,
    /// Where in the buffer.
    pub start: usize,
    /// How many bytes.
    pub len: usize,
}

/// A request cut into tasks: a first one that reaches the alignment, equal ones, and a rest.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    offset: u64,
    len: usize,
    first: usize,
    size: usize,
    count: usize,
    route: Route,
}

impl Plan {
    /// The plan for `request`: a function of its numbers.
    ///
    /// A request of at most a page, or of at most one task, is one task.
    #[must_use]
    pub fn new(request: Request) -> Self {
        let Request { offset, len, route, .. } = request;
        let task_size = request.task_size.max(1);
        let whole = Self { offset, len, first: len, size: len, count: usize::from(len > 0), route };
        if task_size >= len || align::page_size() >= len {
            return whole;
        }
        let (first, size) = match request.alignment {
            Some(unit) if unit.is_power_of_two() && unit <= task_size => {
                let size = task_size - task_size % unit;
                (size - misalignment(offset, unit), size)
            }
            _ => (task_size, task_size),
        };
        Self { offset, len, first, size, count: 1 + (len - first).div_ceil(size), route }
    }

    /// The number of tasks.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The bytes of the whole request.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Where in the source the request begins.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The route of all tasks.
    #[must_use]
    pub fn route(&self) -> Route {
        self.route
    }

    /// Task number `index`, `None` beyond the last.
    #[must_use]
    pub fn task(&self, index: usize) -> Option<Task> {
        if index >= self.count {
            return None;
        }
        let (start, most) = match index {
            0 => (0, self.first),
            _ => (self.first + (index - 1) * self.size, self.size),
        };
        Some(Task { index, offset: self.offset + start as u64, start, len: most.min(self.len - start) })
    }
}

fn misalignment(offset: u64, unit: usize) -> usize {
    // Below `unit`, a usize.
    (offset - align::down(offset, unit as u64)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plan(offset: u64, len: usize, task_size: usize, alignment: Option<usize>) -> Plan {
        Plan::new(Request { offset, len, task_size, alignment, route: Route::Host })
    }

    /// The obvious way: walk from the start, a task at a time.
    fn naive(offset: u64, len: usize, task_size: usize) -> Vec<(u64, usize)> {
        let mut tasks = Vec::new();
        let mut done = 0;
        let size = if len <= align::page_size() { len } else { task_size };
        while done < len {
            let piece = size.min(len - done);
            tasks.push((offset + done as u64, piece));
            done += piece;
        }
        tasks
    }

    #[test]
    fn nothing_is_no_task() {
        assert_eq!(plan(7, 0, 4096, None).count(), 0);
        assert!(plan(7, 0, 4096, None).task(0).is_none());
    }

    proptest! {
        #[test]
        fn tasks_tile_every_request_exactly_once(
            offset in 0..u64::MAX / 2, len in 0..50_000_000_usize, task_size in 1..6_000_000_usize,
            alignment in prop::option::of(prop::sample::select(vec![512_usize, 4096, 65536])),
        ) {
            let task_size = task_size.max(len / 5000);
            let plan = plan(offset, len, task_size, alignment);
            let mut next = 0;
            for index in 0..plan.count() {
                let task = plan.task(index).unwrap();
                prop_assert_eq!(task.index, index);
                prop_assert_eq!(task.start, next);
                prop_assert_eq!(task.offset, offset + next as u64);
                prop_assert!(task.len > 0);
                prop_assert!(task.len <= task_size || plan.count() == 1);
                next += task.len;
            }
            prop_assert_eq!(next, len);
            prop_assert!(plan.task(plan.count()).is_none());
        }

        #[test]
        fn without_alignment_the_plan_is_the_naive_one(
            offset in 0..1_u64 << 40, len in 0..10_000_000_usize, task_size in 1..6_000_000_usize,
        ) {
            let task_size = task_size.max(len / 5000);
            let plan = plan(offset, len, task_size, None);
            let tasks: Vec<_> =
                (0..plan.count()).map(|index| plan.task(index).unwrap()).map(|task| (task.offset, task.len)).collect();
            prop_assert_eq!(tasks, naive(offset, len, task_size));
        }

        #[test]
        fn with_alignment_every_later_task_begins_aligned(
            offset in 0..1_u64 << 40, len in 0..50_000_000_usize, task_size in 4096..6_000_000_usize,
        ) {
            let plan = plan(offset, len, task_size, Some(4096));
            for index in 1..plan.count() {
                prop_assert_eq!(plan.task(index).unwrap().offset % 4096, 0);
            }
        }
    }
}
