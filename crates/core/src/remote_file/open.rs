//! From an address to an open remote object, for each service by name, and for a URL that speaks for itself.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::options::Options;
use crate::remote::classify::EndpointType;
use crate::remote::endpoint::{Endpoint, Fetch};
use crate::remote::open::{self, Opened};
use crate::remote::s3::settings::{S3Settings, Surroundings};
use crate::remote_file::{Remote, RemoteFile};

/// Each function opens one object. With `size` nothing is asked (but see [`Remote::open`]); without, the server is,
/// once as a rule. Wrong arguments are [`ErrorKind::InvalidUrl`](crate::ErrorKind::InvalidUrl) or
/// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput).
impl Remote {
    /// Opens the object at an http or https URL.
    ///
    /// # Errors
    /// What is wrong with the URL; what the server said; or that it does not tell the size.
    pub fn open_http(&self, url: &str, size: Option<u64>, options: Options) -> Result<RemoteFile> {
        RemoteFile::new(self, EndpointType::Http, open::http(url)?, size, options)
    }

    /// Opens the object `key` of `bucket`. The key is taken to the letter: nothing in it is escaped or means anything.
    ///
    /// May ask a service for credentials, where nothing nearer has them.
    ///
    /// # Errors
    /// As [`Remote::open_http`]; [`ErrorKind::Credentials`](crate::ErrorKind::Credentials) where there is no region, or
    /// where no keys are to be found: the message names the places.
    pub fn open_s3(
        &self,
        bucket: &str,
        key: &str,
        settings: &S3Settings,
        size: Option<u64>,
        options: Options,
    ) -> Result<RemoteFile> {
        let endpoint = self.around(|around| open::s3(bucket, key, settings, around))?;
        RemoteFile::new(self, EndpointType::S3, endpoint, size, options)
    }

    /// Opens an object of S3 by its URL: `s3://bucket/key`, or the http(s) URL at which a server has it.
    ///
    /// # Errors
    /// As [`Remote::open_s3`].
    pub fn open_s3_url(
        &self,
        url: &str,
        settings: &S3Settings,
        size: Option<u64>,
        options: Options,
    ) -> Result<RemoteFile> {
        let endpoint = self.around(|around| open::s3_url(url, settings, around))?;
        RemoteFile::new(self, EndpointType::S3, endpoint, size, options)
    }

    /// Opens an object of S3 that anybody may read, without credentials.
    ///
    /// # Errors
    /// As [`Remote::open_http`].
    pub fn open_s3_public(&self, url: &str, size: Option<u64>, options: Options) -> Result<RemoteFile> {
        RemoteFile::new(self, EndpointType::S3Public, open::s3_public(url, &self.variables)?, size, options)
    }

    /// Opens an object of S3 by a URL that carries its signature.
    ///
    /// # Errors
    /// As [`Remote::open_http`].
    pub fn open_s3_presigned_url(
        &self,
        url: &str,
        size: Option<u64>,
        options: Options,
    ) -> Result<RemoteFile> {
        RemoteFile::new(self, EndpointType::S3PresignedUrl, open::s3_presigned(url)?, size, options)
    }

    /// Opens a file of Hadoop's file system over HTTP.
    ///
    /// # Errors
    /// As [`Remote::open_http`].
    pub fn open_webhdfs(&self, url: &str, size: Option<u64>, options: Options) -> Result<RemoteFile> {
        RemoteFile::new(self, EndpointType::WebHdfs, open::webhdfs(url, &self.variables)?, size, options)
    }

    /// Opens the object at `url` as one of `kind`, or, where that is [`EndpointType::Auto`], as the first kind in
    /// `allowed` (where there is none: in [`EndpointType::ORDER`]) that the URL looks like.
    ///
    /// What `Auto` takes for S3 is asked for even where `size` is given: where this process has no credentials, or the
    /// server refuses them (401, 403), the object is opened as a public one, unless `allowed` leaves that out.
    ///
    /// # Errors
    /// As the function for the kind.
    pub fn open(
        &self,
        url: &str,
        kind: EndpointType,
        allowed: Option<&[EndpointType]>,
        size: Option<u64>,
        options: Options,
    ) -> Result<RemoteFile> {
        let opened = self.around(|around| open::open(url, kind, allowed, around))?;
        if kind == EndpointType::Auto && opened.kind == EndpointType::S3 {
            return self.open_probed(opened, size, options);
        }
        let file = RemoteFile::new(self, opened.kind, opened.endpoint, size, options);
        match opened.reason {
            Some(reason) => {
                file.map_err(|error| error.and(&format!(" (without credentials: {})", reason.message())))
            }
            None => file,
        }
    }

    fn open_probed(&self, opened: Opened, size: Option<u64>, options: Options) -> Result<RemoteFile> {
        let file = RemoteFile::new(self, opened.kind, opened.endpoint, None, options.clone());
        match (file, opened.fallback) {
            (Ok(file), _) => Ok(size.map_or(file.clone(), |size| file.of_size(size))),
            (Err(error), Some(public)) if open::falls_back(&error) => {
                self.open_fallback(&error, public, size, options)
            }
            (Err(error), _) => Err(error),
        }
    }

    fn open_fallback(
        &self,
        refused: &Error,
        public: Arc<dyn Endpoint>,
        size: Option<u64>,
        options: Options,
    ) -> Result<RemoteFile> {
        let file = RemoteFile::new(self, EndpointType::S3Public, public, size, options);
        file.map_err(|error| error.and(&format!(" (and with credentials: {})", refused.message())))
    }

    fn around<T>(&self, act: impl FnOnce(Surroundings<'_>) -> Result<T>) -> Result<T> {
        let fetch: Arc<dyn Fetch> = self.transport.clone();
        act(Surroundings { variables: &self.variables, fetch: &fetch, keyrings: &self.keyrings })
    }
}
