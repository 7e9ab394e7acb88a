//! How the commands reach remote objects.

use std::io::Write;

use kvikio::{EndpointType, Engine, Environment, Options, Remote, RemoteFile};

use crate::output::Failure;

/// The way to servers, which tells of retries on standard error.
pub fn remote(engine: &Engine, options: &Options) -> Remote {
    Remote::new(engine, options, &Environment::process()).telling(tell)
}

/// Opens the object at `url` as what it looks like.
///
/// # Errors
/// What the address or the server is the matter with.
pub fn open(remote: &Remote, url: &str, options: Options) -> Result<RemoteFile, Failure> {
    Ok(remote.open(url, EndpointType::Auto, None, None, options)?)
}

fn tell(line: &str) {
    // Where standard error is gone, there is nobody to tell.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
