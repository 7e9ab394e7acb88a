//! Which service a URL speaks of. Pure: nothing is asked of anybody.

use crate::error::{Error, ErrorKind, Result};
use crate::remote::url::Url;

/// The kinds of remote objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndpointType {
    /// Whatever the URL looks like.
    Auto,
    /// S3 with credentials.
    S3,
    /// S3 without credentials.
    S3Public,
    /// An S3 URL that carries its own signature.
    S3PresignedUrl,
    /// Hadoop's file system over HTTP.
    WebHdfs,
    /// Any HTTP server.
    Http,
}

impl EndpointType {
    /// What a URL is compared with, in this order, where nobody says otherwise.
    pub const ORDER: [Self; 5] = [Self::S3, Self::S3Public, Self::S3PresignedUrl, Self::WebHdfs, Self::Http];

    /// The name in messages.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Auto => "AUTO",
            Self::S3 => "S3",
            Self::S3Public => "S3 public",
            Self::S3PresignedUrl => "S3 with presigned URL",
            Self::WebHdfs => "WebHDFS",
            Self::Http => "HTTP",
        }
    }

    fn accepts(self, text: &str, url: &Url) -> bool {
        match self {
            Self::Auto => false,
            Self::S3 | Self::S3Public => {
                has_key_in_s3_scheme(text) || (AwsAddress::find(url).is_some() && !is_presigned(url))
            }
            Self::S3PresignedUrl => is_presigned(url),
            Self::WebHdfs => {
                let root = "/webhdfs/v1/";
                let (path, len) = (url.path(), root.len());
                let is_below =
                    path.len() > len && path.get(..len).is_some_and(|s| s.eq_ignore_ascii_case(root));
                url.is_http() && url.port().is_some() && is_below
            }
            Self::Http => url.is_http() && url.path().len() > 1,
        }
    }
}

/// Decides what `text` is. `wanted` is the user's word, `allowed` replaces [`EndpointType::ORDER`].
///
/// # Errors
/// [`ErrorKind::InvalidUrl`] where the text is no URL, or none that the type (or any allowed one) can use.
pub fn classify(wanted: EndpointType, text: &str, allowed: Option<&[EndpointType]>) -> Result<EndpointType> {
    let (url, subject) = parsed(text)?;
    let order = allowed.unwrap_or(&EndpointType::ORDER);
    let refuse = |words: String| Err(Error::new(ErrorKind::InvalidUrl, "open", words).on(&subject));
    if wanted == EndpointType::Auto {
        return match order.iter().find(|kind| kind.accepts(text, &url)) {
            Some(kind) => Ok(*kind),
            None => refuse("Unsupported endpoint URL.".to_owned()),
        };
    }
    if !order.contains(&wanted) {
        return refuse(format!("{} is not in the allowlist.", wanted.label()));
    }
    if !wanted.accepts(text, &url) {
        return refuse(format!("Invalid URL for {} endpoint", wanted.label()));
    }
    Ok(wanted)
}

/// A URL and its name in messages; of one in the scheme `s3` only the bucket is read, for its key may hold anything.
fn parsed(text: &str) -> Result<(Url, String)> {
    match split_s3(text) {
        Ok((bucket, key)) => {
            Ok((Url::parse(&format!("s3://{bucket}/"))?, format!("s3://{bucket}/{}", key.escape_debug())))
        }
        Err(_) => Url::parse(text).map(|url| (url.clone(), url.subject())),
    }
}

/// Refuses a name that no bucket can have, before it gets into a host name or a path.
///
/// # Errors
/// [`ErrorKind::InvalidInput`].
pub fn checked_bucket(bucket: &str) -> Result<&str> {
    let is_right = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    if !bucket.is_empty() && bucket.bytes().all(is_right) && !matches!(bucket, "." | "..") {
        return Ok(bucket);
    }
    let words = "the bucket's name may hold letters, digits, `.`, `-` and `_`";
    Err(Error::new(ErrorKind::InvalidInput, "open", words))
}

/// `s3://bucket/key` with something for both.
fn has_key_in_s3_scheme(text: &str) -> bool {
    split_s3(text).is_ok()
}

/// Bucket and key of an `s3://` URL; the key is everything after the first `/`, to the letter.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] where it is not of that form.
pub fn split_s3(text: &str) -> Result<(&str, &str)> {
    let is_s3 = text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("s3://"));
    match text.get(5..).and_then(|rest| rest.split_once('/')) {
        Some((bucket, key)) if is_s3 && checked_bucket(bucket).is_ok() && !key.is_empty() => {
            Ok((bucket, key))
        }
        _ => {
            let words = "Input string does not match the expected S3 URL format. (s3://bucket/key)";
            Err(Error::new(ErrorKind::InvalidInput, "open", words))
        }
    }
}

fn is_presigned(url: &Url) -> bool {
    let query = url.query().unwrap_or_default();
    let is_signed = ["X-Amz-Algorithm", "X-Amz-Signature"].iter().all(|word| query.contains(word));
    is_signed && AwsAddress::find(url).is_some()
}

/// What an address at `amazonaws.com` says; bucket and key as they are written in the URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwsAddress<'a> {
    /// The bucket, out of host or path.
    pub bucket: &'a str,
    /// The key, encoded as in the URL; never empty.
    pub key: &'a str,
    /// The region, where the host names one.
    pub region: Option<&'a str>,
}

impl<'a> AwsAddress<'a> {
    /// Reads one of AWS's six forms: `s3`, `s3.REGION` or `s3-REGION`, with the bucket before it or in the path.
    #[must_use]
    pub fn find(url: &'a Url) -> Option<Self> {
        if !url.is_http() || url.port().is_some() {
            return None;
        }
        let (before, region) = service_of(url.host().strip_suffix(".amazonaws.com")?)?;
        let path = url.path().strip_prefix('/')?;
        let (bucket, key) = match before {
            Some(bucket) => (bucket, path),
            None => path.split_once('/')?,
        };
        let is_whole = !bucket.is_empty() && !key.is_empty();
        is_whole.then_some(Self { bucket, key, region })
    }
}

/// Bucket and region of `[bucket.]s3[.region|-region]`.
fn service_of(host: &str) -> Option<(Option<&str>, Option<&str>)> {
    let (before, last) = match host.rsplit_once('.') {
        Some((before, last)) => (Some(before), last),
        None => (None, host),
    };
    if last == "s3" {
        return Some((before, None));
    }
    if let Some(region) = last.strip_prefix("s3-").filter(|region| !region.is_empty()) {
        return Some((before, Some(region)));
    }
    let region = Some(last).filter(|region| !region.is_empty());
    match before? {
        "s3" => Some((None, region)),
        before => Some((Some(before.strip_suffix(".s3")?), region)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use EndpointType::{Auto, Http, S3, S3PresignedUrl, S3Public, WebHdfs};

    const SIGNED: &str = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=00";

    #[test]
    fn a_url_is_what_it_looks_like() {
        for (text, kind) in [
            ("s3://b/k", Some(S3)),
            ("S3://bucket_name/object_name", Some(S3)),
            ("s3://b//k", Some(S3)),
            ("s3://b/k?#\n ", Some(S3)),
            ("s3://b/", None),
            ("s3://b", None),
            ("https://b.s3.us-east-1.amazonaws.com/k", Some(S3)),
            ("https://s3.us-east-1.amazonaws.com/b/k", Some(S3)),
            ("http://b.s3.amazonaws.com/k", Some(S3)),
            ("https://s3.amazonaws.com/b/k", Some(S3)),
            ("https://B.S3-eu-west-1.AmazonAWS.com/k", Some(S3)),
            ("https://s3-eu-west-1.amazonaws.com/b/k/l", Some(S3)),
            ("https://my.dotted.b.s3.us-east-1.amazonaws.com/k", Some(S3)),
            ("https://s3.us-east-1.amazonaws.com/b", Some(Http)),
            ("https://s3.us-east-1.amazonaws.com/b/", Some(Http)),
            ("https://b.s3.us-east-1.amazonaws.com/", None),
            ("https://b.s3.dualstack.us-east-1.amazonaws.com/k", Some(Http)),
            ("https://b.s3.cn-north-1.amazonaws.com.cn/k", Some(Http)),
            ("https://b.ec2.us-east-1.amazonaws.com/k", Some(Http)),
            ("https://evil-amazonaws.com/b/k", Some(Http)),
            ("http://h/webhdfs/v1/f", Some(Http)),
            ("http://h:9870/webhdfs/v1/f", Some(WebHdfs)),
            ("https://h:9870/WebHDFS/V1/f?op=OPEN", Some(WebHdfs)),
            ("http://h:9870/webhdfs/v1/", Some(Http)),
            ("http://h:9870/webhdfs/v1ü", Some(Http)),
            ("http://h", None),
            ("http://h/", None),
            ("http://h/x", Some(Http)),
            ("ftp://h/x", None),
            ("file:///x", None),
            ("unsupported://h/x", None),
        ] {
            match (classify(Auto, text, None), kind) {
                (Ok(found), Some(kind)) => assert_eq!(found, kind, "{text}"),
                (Err(error), None) => {
                    assert!(error.message().contains("Unsupported endpoint URL"), "{text}: {error}");
                }
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_presigned_url_needs_both_words_and_an_aws_host() {
        let at =
            |host: &str, query: &str| classify(Auto, &format!("https://{host}/b/k?{query}"), None).unwrap();
        assert_eq!(at("s3.us-east-1.amazonaws.com", SIGNED), S3PresignedUrl);
        assert_eq!(at("s3.us-east-1.amazonaws.com", "X-Amz-Algorithm=1"), S3);
        assert_eq!(at("s3.us-east-1.amazonaws.com", &SIGNED.to_lowercase()), S3);
        assert_eq!(at("h", SIGNED), Http);
    }

    #[test]
    fn the_list_of_the_allowed_rules() {
        let text = "https://b.s3.amazonaws.com/k";
        assert_eq!(classify(Auto, text, Some(&[Http, S3])).unwrap(), Http);
        assert_eq!(classify(Auto, text, Some(&[Auto, S3Public])).unwrap(), S3Public);
        let words = |result: Result<EndpointType>| result.unwrap_err().message().to_owned();
        assert_eq!(words(classify(Auto, text, Some(&[]))), "Unsupported endpoint URL.");
        assert_eq!(words(classify(S3Public, text, Some(&[S3]))), "S3 public is not in the allowlist.");
        assert_eq!(words(classify(WebHdfs, text, None)), "Invalid URL for WebHDFS endpoint");
        assert_eq!(words(classify(S3, "s3://bucket", None)), "Invalid URL for S3 endpoint");
        assert!(words(classify(Auto, "example.com/path", None)).contains("Bad scheme"));
        let error = classify(Http, "s3://b/k\n?", None).unwrap_err();
        assert_eq!(error.subject(), Some("s3://b/k\\n?"));
    }

    #[test]
    fn the_six_aws_forms_say_bucket_key_and_region() {
        for (text, bucket, key, region) in [
            ("https://b.s3.r-1.amazonaws.com/k/l", "b", "k/l", Some("r-1")),
            ("https://s3.r-1.amazonaws.com/b/k", "b", "k", Some("r-1")),
            ("https://a.b.s3.amazonaws.com//k", "a.b", "/k", None),
            ("https://s3.amazonaws.com/b//k", "b", "/k", None),
            ("https://b.s3-r-1.amazonaws.com/k%20", "b", "k%20", Some("r-1")),
            ("https://s3-r-1.amazonaws.com/b/k", "b", "k", Some("r-1")),
        ] {
            let url = Url::parse(text).unwrap();
            assert_eq!(AwsAddress::find(&url), Some(AwsAddress { bucket, key, region }), "{text}");
        }
    }

    #[test]
    fn an_s3_key_is_everything_after_the_first_slash() {
        assert_eq!(split_s3("s3://b//a?b#c%20 d").unwrap(), ("b", "/a?b#c%20 d"));
        for bad in [
            "s3://b?c/k",
            "s3://user@b/k",
            "s3://./k",
            "s3://",
            "s3://b",
            "s3://b/",
            "s3:///k",
            "s3:/b/k",
            "http://b/k",
            "ü3://b/k",
        ] {
            let error = split_s3(bad).unwrap_err();
            assert!(error.message().contains("Input string does not match the expected S3 URL format."));
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text: String, rest in "\\PC{0,30}") {
            for text in [text, format!("s3://{rest}"), format!("https://{rest}.amazonaws.com/{rest}")] {
                for wanted in [Auto, S3, S3PresignedUrl, WebHdfs, Http] {
                    let _ = classify(wanted, &text, None);
                }
            }
        }
    }
}
