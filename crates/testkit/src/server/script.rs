//! What a server has and how it goes wrong.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;

use crate::server::content::Content;
use crate::server::fault::Fault;
use crate::server::tls::{Authority, Flaw};

/// One object.
#[derive(Debug, Clone)]
pub struct Object {
    /// Its bytes.
    pub content: Content,
    /// Its tag, with quotation marks; empty for none.
    pub etag: String,
}

impl Object {
    /// An object with a tag of its own.
    pub fn new(content: impl Into<Content>) -> Self {
        let content = content.into();
        let sum = match &content {
            Content::Bytes(bytes) => {
                bytes.iter().fold(5381_u64, |sum, byte| sum.wrapping_mul(33) ^ u64::from(*byte))
            }
            _ => 0,
        };
        Self { etag: format!("\"{:x}-{sum:x}\"", content.len()), content }
    }
}

/// A fault, where it strikes and how often.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub prefix: String,
    /// Requests that it lets pass first,
    pub skip: usize,
    /// and those that it strikes then.
    pub times: usize,
    pub fault: Fault,
}

impl Rule {
    pub fn new(prefix: &str, skip: usize, times: usize, fault: Fault) -> Self {
        Self { prefix: prefix.to_owned(), skip, times, fault }
    }

    /// True for request number `index` (from 0) of those that it concerns.
    pub fn strikes(&self, index: usize) -> bool {
        index >= self.skip && index - self.skip < self.times
    }
}

/// A script: objects, and rules by the beginning of the path. Each rule counts the requests that it concerns, from 1.
#[derive(Debug, Clone, Default)]
pub struct Script {
    pub(super) objects: BTreeMap<String, Object>,
    pub(super) rules: Vec<Rule>,
    pub(super) tls: Option<Arc<ServerConfig>>,
    pub(super) proxy: Option<Option<String>>,
    pub(super) root: Option<PathBuf>,
    pub(super) has_paths: bool,
    pub(super) keep_alive: Option<usize>,
}

impl Script {
    /// A server without objects.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// There is an object at `path`.
    #[must_use]
    pub fn object(mut self, path: &str, content: impl Into<Content>) -> Self {
        self.objects.insert(path.to_owned(), Object::new(content));
        self
    }

    /// All requests for paths that begin with `prefix` go wrong.
    #[must_use]
    pub fn always(self, prefix: &str, fault: Fault) -> Self {
        self.rule(Rule::new(prefix, 0, usize::MAX, fault))
    }

    /// The first request goes wrong.
    #[must_use]
    pub fn once(self, prefix: &str, fault: Fault) -> Self {
        self.times(1, prefix, fault)
    }

    /// The first `times` requests go wrong.
    #[must_use]
    pub fn times(self, times: usize, prefix: &str, fault: Fault) -> Self {
        self.rule(Rule::new(prefix, 0, times, fault))
    }

    /// The requests from number `first` (1 is the first) on go wrong.
    #[must_use]
    pub fn from(self, first: usize, prefix: &str, fault: Fault) -> Self {
        self.rule(Rule::new(prefix, first.saturating_sub(1), usize::MAX, fault))
    }

    /// Request number `number` (1 is the first) goes wrong.
    #[must_use]
    pub fn at(self, number: usize, prefix: &str, fault: Fault) -> Self {
        self.rule(Rule::new(prefix, number.saturating_sub(1), 1, fault))
    }

    /// Closes each connection after so many requests, and says so with the last.
    #[must_use]
    pub fn requests_per_connection(mut self, count: usize) -> Self {
        self.keep_alive = Some(count);
        self
    }

    /// Speaks TLS with a certificate of `authority`.
    #[must_use]
    pub fn tls(mut self, authority: &Authority, flaw: Flaw) -> Self {
        self.tls = Some(authority.server(flaw));
        self
    }

    /// Is a proxy: forwards requests with a whole address, and opens tunnels.
    #[must_use]
    pub fn proxy(mut self) -> Self {
        self.proxy = Some(None);
        self
    }

    /// Is a proxy for those who send these credentials (`user:password`).
    #[must_use]
    pub fn private_proxy(mut self, credentials: &str) -> Self {
        self.proxy = Some(Some(credentials.to_owned()));
        self
    }

    /// Files below `dir` are objects too.
    #[must_use]
    pub fn root(mut self, dir: impl Into<PathBuf>) -> Self {
        self.root = Some(dir.into());
        self
    }

    /// Paths such as `/reset1/1048576/any-name` mean objects and faults; the list is in `paths.rs`.
    #[must_use]
    pub fn by_path(mut self) -> Self {
        self.has_paths = true;
        self
    }

    fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }
}
