//! Keyrings by settings: objects that are opened alike share their keys, and one search for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::remote::credentials::chain::Chain;
use crate::remote::credentials::keyring::Keyring;
use crate::remote::credentials::variables::Variables;
use crate::remote::endpoint::Fetch;

/// More settings than any program uses: then all are forgotten, which costs a search.
const MOST: usize = 64;

type Settings = (Variables, Option<String>);

/// The keyrings of a process. Without a lock, so that a child of a fork never waits for a thread that it does not have.
#[derive(Debug, Default)]
pub struct Keyrings(ArcSwap<BTreeMap<Settings, Arc<Keyring>>>);

impl Keyrings {
    /// The keyring that searches with these variables and this profile.
    #[must_use]
    pub fn of(&self, variables: &Variables, profile: Option<&str>, fetch: &Arc<dyn Fetch>) -> Arc<Keyring> {
        let settings = (variables.clone(), profile.map(str::to_owned));
        if let Some(known) = self.0.load().get(&settings) {
            return Arc::clone(known);
        }
        let chain = Chain::new(settings.0.clone(), settings.1.clone(), Arc::clone(fetch));
        let fresh = Keyring::supplied(Arc::new(chain));
        self.0.rcu(|all| {
            let mut all = if all.len() < MOST { BTreeMap::clone(all) } else { BTreeMap::new() };
            all.entry(settings.clone()).or_insert_with(|| Arc::clone(&fresh));
            all
        });
        // Another thread may have been faster.
        self.0.load().get(&settings).map_or(fresh, Arc::clone)
    }
}
