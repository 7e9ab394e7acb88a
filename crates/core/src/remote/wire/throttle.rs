//! A brake for one origin: as many requests in flight as the server bears, halved at once, raised slowly.

/// When a request began, as far as the brake is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    epoch: u64,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// Answered well.
    Borne,
    /// The server said that it is too much: 429, or 503.
    TooMuch,
    /// Something that tells nothing about load.
    Unknown,
}

/// The number of requests that may be in flight to one origin. Share it among loops behind a lock.
#[derive(Debug, Clone)]
pub struct Throttle {
    /// The most that was ever allowed.
    most: usize,
    limit: usize,
    in_flight: usize,
    borne: usize,
    /// Counts the halvings: the requests of one epoch brake once.
    epoch: u64,
}

impl Throttle {
    /// Lets `most` requests fly, 0 for any number.
    #[must_use]
    pub fn new(most: usize) -> Self {
        let most = if most == 0 { usize::MAX } else { most };
        Self { most, limit: most, in_flight: 0, borne: 0, epoch: 0 }
    }

    /// The number allowed now, at least 1.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Begins a request; `None` where none may begin now. What begins must end.
    pub fn begin(&mut self) -> Option<Ticket> {
        if self.in_flight >= self.limit {
            return None;
        }
        self.in_flight += 1;
        Some(Ticket { epoch: self.epoch })
    }

    /// Ends a request.
    ///
    /// Of those that were in flight together only the first that was too much brakes, so that one storm halves once.
    pub fn end(&mut self, ticket: Ticket, load: Load) {
        let flown = self.in_flight;
        self.in_flight = self.in_flight.saturating_sub(1);
        match load {
            Load::TooMuch if ticket.epoch == self.epoch => {
                self.limit = (self.limit.min(flown) / 2).max(1);
                self.epoch += 1;
                self.borne = 0;
            }
            Load::Borne if self.limit < self.most => {
                self.borne += 1;
                if self.borne >= self.limit {
                    self.limit += 1;
                    self.borne = 0;
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fill(throttle: &mut Throttle) -> Vec<Ticket> {
        std::iter::from_fn(|| throttle.begin()).take(1000).collect()
    }

    #[test]
    fn no_more_fly_than_allowed() {
        let mut throttle = Throttle::new(3);
        let tickets = fill(&mut throttle);
        assert_eq!(tickets.len(), 3);
        throttle.end(tickets[0], Load::Unknown);
        assert!(throttle.begin().is_some() && throttle.begin().is_none());
        assert_eq!(fill(&mut Throttle::new(0)).len(), 1000, "0 is no limit");
    }

    #[test]
    fn a_storm_halves_once_and_the_next_halves_again() {
        let mut throttle = Throttle::new(64);
        for expected in [32, 16, 8, 4, 2, 1, 1] {
            for ticket in fill(&mut throttle) {
                throttle.end(ticket, Load::TooMuch);
            }
            assert_eq!(throttle.limit(), expected);
        }
    }

    #[test]
    fn without_a_limit_the_brake_starts_from_what_was_flying() {
        let mut throttle = Throttle::new(0);
        let tickets: Vec<_> = (0..20).filter_map(|_| throttle.begin()).collect();
        throttle.end(tickets[0], Load::TooMuch);
        assert_eq!(throttle.limit(), 10);
    }

    #[test]
    fn what_is_borne_raises_it_by_one_each_round_up_to_the_most() {
        let mut throttle = Throttle::new(4);
        for ticket in fill(&mut throttle) {
            throttle.end(ticket, Load::TooMuch);
        }
        let mut limits = Vec::new();
        for _ in 0..9 {
            let ticket = throttle.begin().unwrap();
            throttle.end(ticket, Load::Borne);
            limits.push(throttle.limit());
        }
        assert_eq!(limits, [2, 3, 3, 3, 4, 4, 4, 4, 4]);
    }

    proptest! {
        #[test]
        fn it_never_closes_and_never_exceeds(most in 1..20_usize, moves in prop::collection::vec((any::<bool>(), 0..3_usize), 0..300)) {
            let mut throttle = Throttle::new(most);
            let mut flying = Vec::new();
            for (begins, load) in moves {
                if begins {
                    flying.extend(throttle.begin());
                } else if let Some(ticket) = flying.pop() {
                    throttle.end(ticket, [Load::Borne, Load::TooMuch, Load::Unknown][load]);
                }
                prop_assert!((1..=most).contains(&throttle.limit()) && flying.len() <= most);
                prop_assert!(!flying.is_empty() || throttle.clone().begin().is_some());
            }
        }
    }
}
