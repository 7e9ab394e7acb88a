//! From an address to an endpoint.

use std::sync::Arc;
use std::time::SystemTime;

use crate::error::{Error, ErrorKind, Result};
use crate::remote::classify::{EndpointType, classify, split_s3};
use crate::remote::credentials::chain::Chain;
use crate::remote::credentials::variables::Variables;
use crate::remote::endpoint::Endpoint;
use crate::remote::http::HttpEndpoint;
use crate::remote::s3::object::S3Object;
use crate::remote::s3::place::{Place, checked_region};
use crate::remote::s3::presigned::PresignedObject;
use crate::remote::s3::settings::{S3Settings, Surroundings, Wanted};
use crate::remote::url::{Url, sketch};
use crate::remote::webhdfs::WebHdfsFile;

/// An object that is ready to be asked.
#[derive(Debug)]
pub struct Opened {
    /// The object.
    pub endpoint: Arc<dyn Endpoint>,
    /// What it was taken for.
    pub kind: EndpointType,
    /// The same object without credentials: to be tried where the first probe ends with an error for which [`falls_back`]
    /// holds. Where it is there, a probe is sent even when the size is known.
    pub fallback: Option<Arc<dyn Endpoint>>,
    /// Why the object is read without credentials though nobody asked for that.
    pub reason: Option<Error>,
}

/// Whether an error of the first probe means that the credentials, not the object, are the trouble.
#[must_use]
pub fn falls_back(error: &Error) -> bool {
    matches!(error.status(), Some(401 | 403))
}

/// An object of any HTTP server.
///
/// # Errors
/// [`ErrorKind::InvalidUrl`].
pub fn http(url: &str) -> Result<Arc<dyn Endpoint>> {
    Ok(Arc::new(HttpEndpoint::open(url)?))
}

/// A file of HDFS; its user is the URL's, else the environment's.
///
/// # Errors
/// [`ErrorKind::InvalidUrl`].
pub fn webhdfs(url: &str, variables: &Variables) -> Result<Arc<dyn Endpoint>> {
    Ok(Arc::new(WebHdfsFile::open(url, variables.even_empty("KVIKIO_WEBHDFS_USERNAME"))?))
}

/// An object of S3 behind a URL that carries its signature.
///
/// # Errors
/// [`ErrorKind::InvalidUrl`].
pub fn s3_presigned(url: &str) -> Result<Arc<dyn Endpoint>> {
    Ok(Arc::new(PresignedObject::open(url)?))
}

/// The object `key` (to the letter) of `bucket`, with credentials. May block while they are searched for.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] for what cannot be a bucket, a key, a region or an endpoint; [`ErrorKind::Credentials`]
/// where region or keys are nowhere, or their source fails.
pub fn s3(
    bucket: &str,
    key: &str,
    settings: &S3Settings,
    around: Surroundings<'_>,
) -> Result<Arc<dyn Endpoint>> {
    let place = Place::of(bucket, key, settings.endpoint(around.variables))?;
    signed(s3_name(bucket, key), place, None, settings, around)?.required()
}

/// An object of S3 by its URL (`s3`, or the http(s) URL at which the server has it), with credentials.
///
/// # Errors
/// As [`s3`]; [`ErrorKind::InvalidInput`] for another scheme.
pub fn s3_url(url: &str, settings: &S3Settings, around: Surroundings<'_>) -> Result<Arc<dyn Endpoint>> {
    try_s3_url(url, settings, around)?.required()
}

fn try_s3_url(
    url: &str,
    settings: &S3Settings,
    around: Surroundings<'_>,
) -> Result<Wanted<Arc<dyn Endpoint>>> {
    let (name, place, region) = located(url, settings, around.variables)?;
    signed(name, place, region, settings, around)
}

/// An object of S3 that anybody may read, by its URL.
///
/// # Errors
/// As [`s3_url`], but for credentials.
pub fn s3_public(url: &str, variables: &Variables) -> Result<Arc<dyn Endpoint>> {
    let (name, place, region) = located(url, &S3Settings::default(), variables)?;
    let region = region.or_else(|| variables.region().map(str::to_owned)).map(checked_region).transpose()?;
    Ok(Arc::new(S3Object::new(name, place, region, None)))
}

/// The name in messages, the place, and the region that the URL tells.
fn located(
    url: &str,
    settings: &S3Settings,
    variables: &Variables,
) -> Result<(String, Place, Option<String>)> {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    match scheme.as_deref() {
        Some("http" | "https") => {
            let (place, region) = Place::at(url)?;
            Ok((Url::parse(url)?.subject(), place, region))
        }
        Some("s3") => {
            let (bucket, key) = split_s3(url)?;
            Ok((s3_name(bucket, key), Place::of(bucket, key, settings.endpoint(variables))?, None))
        }
        _ => {
            let shown = sketch(url);
            Err(Error::new(ErrorKind::InvalidInput, "open", format!("Unsupported protocol: {shown}")))
        }
    }
}

fn s3_name(bucket: &str, key: &str) -> String {
    let key: String =
        key.chars().flat_map(|c| if c.is_control() { c.escape_debug().collect() } else { vec![c] }).collect();
    format!("s3://{bucket}/{key}")
}

fn signed(
    name: String,
    place: Place,
    region: Option<String>,
    settings: &S3Settings,
    around: Surroundings<'_>,
) -> Result<Wanted<Arc<dyn Endpoint>>> {
    let named = |error: Error| error.on(&name);
    let region = match settings.region(region, around.variables).map_err(named)? {
        Wanted::Here(region) => region,
        Wanted::Missing(error) => return Ok(Wanted::Missing(named(error))),
    };
    let keyring = match settings.keyring(around, SystemTime::now()).map_err(named)? {
        Wanted::Here(keyring) => keyring,
        Wanted::Missing(error) => return Ok(Wanted::Missing(named(error))),
    };
    Ok(Wanted::Here(Arc::new(S3Object::new(name, place, Some(region), Some(keyring)))))
}

/// The object at `url`, of the kind `wanted`, or of the first kind in `allowed` (else in the usual order) that fits.
///
/// # Errors
/// As [`classify`] and the function for that kind.
pub fn open(
    url: &str,
    wanted: EndpointType,
    allowed: Option<&[EndpointType]>,
    around: Surroundings<'_>,
) -> Result<Opened> {
    let kind = classify(wanted, url, allowed)?;
    let alone = |endpoint| Opened { endpoint, kind, fallback: None, reason: None };
    match kind {
        EndpointType::Http => http(url).map(alone),
        EndpointType::WebHdfs => webhdfs(url, around.variables).map(alone),
        EndpointType::S3PresignedUrl => s3_presigned(url).map(alone),
        EndpointType::S3Public => s3_public(url, around.variables).map(alone),
        EndpointType::S3 | EndpointType::Auto => {
            let may_fall_back = wanted == EndpointType::Auto && allows_public(allowed);
            if !may_fall_back {
                return s3_url(url, &S3Settings::default(), around).map(alone);
            }
            let public = s3_public(url, around.variables)?;
            Ok(match try_s3_url(url, &S3Settings::default(), around)? {
                Wanted::Here(endpoint) => Opened { endpoint, kind, fallback: Some(public), reason: None },
                Wanted::Missing(error) => {
                    let kind = EndpointType::S3Public;
                    Opened { endpoint: public, kind, fallback: None, reason: Some(error) }
                }
            })
        }
    }
}

fn allows_public(allowed: Option<&[EndpointType]>) -> bool {
    allowed.is_none_or(|allowed| allowed.contains(&EndpointType::S3Public))
}

/// The kind that [`open`] would take `url` for, without asking anybody over the network.
///
/// # Errors
/// As [`classify`].
pub fn infer(url: &str, variables: &Variables) -> Result<EndpointType> {
    let kind = classify(EndpointType::Auto, url, None)?;
    if kind != EndpointType::S3 {
        return Ok(kind);
    }
    let (_, _, region) = located(url, &S3Settings::default(), variables)?;
    let has_region = matches!(S3Settings::default().region(region, variables)?, Wanted::Here(_));
    let is_set_up = has_region && Chain::has_source(variables)?;
    Ok(if is_set_up { EndpointType::S3 } else { EndpointType::S3Public })
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod real_servers;
