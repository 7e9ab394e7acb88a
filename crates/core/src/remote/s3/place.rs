//! Where an object is: host and path for a bucket and a key.

use crate::error::{Error, ErrorKind, Result};
use crate::remote::classify::{AwsAddress, checked_bucket};
use crate::remote::escape;
use crate::remote::request::{Origin, Scheme};
use crate::remote::s3::sign::canonical_query;
use crate::remote::url::Url;

/// The place of one object. Keys are taken to the letter; each of their bytes is encoded once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// AWS itself: the host follows from bucket and region.
    Aws {
        /// Plain HTTP only where a URL asks for it.
        scheme: Scheme,
        /// The bucket.
        bucket: String,
        /// The key, encoded, without the leading `/`.
        path: String,
        /// A canonical query, without `?`, or nothing.
        query: String,
    },
    /// Somebody else's server, or a URL of which only the server knows what is the bucket.
    Fixed {
        /// The server.
        origin: Origin,
        /// The path, encoded, with the leading `/`.
        path: String,
        /// As above.
        query: String,
    },
}

impl Place {
    /// The object `key` of `bucket`; at `endpoint` in path style, else at AWS.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for a name that no bucket has, an empty key, an endpoint that is no HTTP address.
    pub fn of(bucket: &str, key: &str, endpoint: Option<&str>) -> Result<Self> {
        let bucket = checked_bucket(bucket)?;
        if key.is_empty() {
            return Err(Error::new(ErrorKind::InvalidInput, "open", "the object's name is empty"));
        }
        let path = escape::path_of_key(key.as_bytes());
        let Some(endpoint) = endpoint else {
            let (bucket, query) = (bucket.to_owned(), String::new());
            return Ok(Self::Aws { scheme: Scheme::Https, bucket, path, query });
        };
        let url = http_url(endpoint)?;
        let prefix = escape::path_of_key(&escape::decode(url.path().trim_end_matches('/')));
        Ok(Self::Fixed {
            origin: url.origin()?,
            path: format!("{prefix}/{bucket}/{path}"),
            query: String::new(),
        })
    }

    /// The object behind an http(s) URL, and the region that its host names.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for another scheme, [`ErrorKind::InvalidUrl`] for no URL.
    pub fn at(url: &str) -> Result<(Self, Option<String>)> {
        let url = http_url(url)?;
        let origin = url.origin()?;
        let canonical = |written: &str| escape::path_of_key(&escape::decode(written));
        let query = canonical_query(url.query().unwrap_or_default());
        let Some(address) = AwsAddress::find(&url) else {
            return Ok((Self::Fixed { origin, path: canonical(url.path()), query }, None));
        };
        let (bucket, path) = (address.bucket.to_owned(), canonical(address.key));
        // `s3-accelerate` is a way in, not a region.
        if address.region == Some("accelerate") {
            return Ok((Self::Fixed { origin, path: canonical(url.path()), query }, None));
        }
        Ok((Self::Aws { scheme: origin.scheme, bucket, path, query }, address.region.map(str::to_owned)))
    }

    /// Host and target of a request, where the bucket is in `region`.
    #[must_use]
    pub fn locate(&self, region: Option<&str>) -> (Origin, String) {
        let (origin, mut target, query) = match self {
            Self::Aws { scheme, bucket, path, query } => {
                let service = service(region);
                let (host, target) = if is_dns_label(bucket) {
                    (format!("{bucket}.{service}"), format!("/{path}"))
                } else {
                    (service, format!("/{bucket}/{path}"))
                };
                (Origin { scheme: *scheme, host, port: scheme.default_port() }, target, query)
            }
            Self::Fixed { origin, path, query } => (origin.clone(), path.clone(), query),
        };
        if !query.is_empty() {
            target.push('?');
            target.push_str(query);
        }
        (origin, target)
    }
}

fn service(region: Option<&str>) -> String {
    match region {
        None => "s3.amazonaws.com".to_owned(),
        Some(region) if region.starts_with("cn-") => format!("s3.{region}.amazonaws.com.cn"),
        Some(region) => format!("s3.{region}.amazonaws.com"),
    }
}

/// A bucket that may stand before the host: one label of a name, so that AWS's certificate covers it. Others (with dots,
/// with capitals, with `_`) go into the path.
fn is_dns_label(bucket: &str) -> bool {
    let is_right = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (3..=63).contains(&bucket.len())
        && bucket.bytes().all(is_right)
        && !bucket.starts_with('-')
        && !bucket.ends_with('-')
}

fn http_url(text: &str) -> Result<Url> {
    let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    if !matches!(scheme.as_deref(), Some("http" | "https")) {
        let words = "url must start with http:// or https://";
        return Err(Error::new(ErrorKind::InvalidInput, "open", words));
    }
    Url::parse(text)
}

/// Refuses a region that would become another host's name.
///
/// # Errors
/// [`ErrorKind::InvalidInput`].
pub fn checked_region(region: String) -> Result<String> {
    let is_right = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if !region.is_empty() && region.bytes().all(is_right) {
        return Ok(region);
    }
    let words = format!("{region:?} is no region: one looks like us-east-1");
    Err(Error::new(ErrorKind::InvalidInput, "open", words))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn located(place: &Place, region: Option<&str>) -> String {
        let (origin, target) = place.locate(region);
        format!("{}://{origin}{target}", origin.scheme.as_str())
    }

    #[test]
    fn buckets_stand_before_the_host_where_they_can() {
        let aws = |bucket| located(&Place::of(bucket, "k", None).unwrap(), Some("eu-west-1"));
        assert_eq!(aws("bucket-1"), "https://bucket-1.s3.eu-west-1.amazonaws.com/k");
        assert_eq!(aws("dotted.bucket"), "https://s3.eu-west-1.amazonaws.com/dotted.bucket/k");
        assert_eq!(aws("Upper"), "https://s3.eu-west-1.amazonaws.com/Upper/k");
        assert_eq!(aws("under_score"), "https://s3.eu-west-1.amazonaws.com/under_score/k");
        let place = Place::of("bucket", "k", None).unwrap();
        assert_eq!(located(&place, None), "https://bucket.s3.amazonaws.com/k");
        assert_eq!(located(&place, Some("cn-north-1")), "https://bucket.s3.cn-north-1.amazonaws.com.cn/k");
    }

    #[test]
    fn an_endpoint_has_the_bucket_in_its_path() {
        for (endpoint, expected) in [
            ("http://127.0.0.1:9000", "http://127.0.0.1:9000/b/k"),
            ("http://127.0.0.1:9000/", "http://127.0.0.1:9000/b/k"),
            ("HTTPS://Gateway/pre fix/", "https://gateway/pre%20fix/b/k"),
            ("http://[::1]:1", "http://[::1]:1/b/k"),
        ] {
            assert_eq!(located(&Place::of("b", "k", Some(endpoint)).unwrap(), Some("r")), expected);
        }
        for bad in ["", "localhost:9000", "ftp://h", "s3://b"] {
            let error = Place::of("b", "k", Some(bad)).unwrap_err();
            assert_eq!(error.message(), "url must start with http:// or https://", "{bad}");
        }
    }

    #[test]
    fn keys_are_taken_to_the_letter() {
        for (key, path) in [
            ("a+b c", "/b/a%2Bb%20c"),
            ("a#b?c%d%20e", "/b/a%23b%3Fc%25d%2520e"),
            ("/lead//double/./x/../y/", "/b//lead//double/./x/../y/"),
            ("it's~[z]&=;:@$,!*()", "/b/it%27s~%5Bz%5D%26%3D%3B%3A%40%24%2C%21%2A%28%29"),
            ("\u{e4}\n\u{1F600}", "/b/%C3%A4%0A%F0%9F%98%80"),
        ] {
            let place = Place::of("b", key, Some("http://h")).unwrap();
            assert_eq!(place.locate(None).1, path, "{key:?}");
        }
        for (bucket, key) in [("", "k"), ("b/c", "k"), ("b@c", "k"), ("b\n", "k"), ("..", "k"), ("b", "")] {
            assert_eq!(Place::of(bucket, key, None).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn urls_are_decoded_then_encoded_as_s3_signs_them() {
        let at = |url: &str| {
            let (place, region) = Place::at(url).unwrap();
            (located(&place, region.as_deref()), region)
        };
        let own = |text: &str| Some(text.to_owned());
        assert_eq!(at("http://h:1/b/a%2bb+c d%zz"), ("http://h:1/b/a%2Bb%2Bc%20d%25zz".to_owned(), None));
        assert_eq!(
            at("https://bucket.s3-eu-west-1.amazonaws.com/k%20?versionId=a/b"),
            ("https://bucket.s3.eu-west-1.amazonaws.com/k%20?versionId=a%2Fb".to_owned(), own("eu-west-1"))
        );
        assert_eq!(
            at("http://s3.r-1.amazonaws.com/a.b//k"),
            ("http://s3.r-1.amazonaws.com/a.b//k".to_owned(), own("r-1"))
        );
        assert_eq!(
            at("https://bucket.s3-accelerate.amazonaws.com/k"),
            ("https://bucket.s3-accelerate.amazonaws.com/k".to_owned(), None)
        );
        assert!(Place::at("s3://b/k").is_err());
    }

    #[test]
    fn a_region_is_not_a_way_to_another_host() {
        assert_eq!(checked_region("us-east-1".to_owned()).unwrap(), "us-east-1");
        for bad in ["", "x.evil.example/", "a b", "a\r\nb", "r@"] {
            assert!(checked_region(bad.to_owned()).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn a_url_made_of_a_key_leads_back_to_the_key(key in "\\PC{1,20}|[/.%a+]{1,8}") {
            let by_key = Place::of("b", &key, Some("http://h")).unwrap();
            let (origin, target) = by_key.locate(None);
            let (by_url, _) = Place::at(&format!("http://{origin}{target}")).unwrap();
            prop_assert_eq!(by_url, by_key);
        }
    }
}
