//! AWS Signature Version 4, for requests without a body.

use std::time::{SystemTime, UNIX_EPOCH};

use reqsign_core::hash::{hex_hmac_sha256, hex_sha256, hmac_sha256};
use reqsign_core::time::Timestamp;

use crate::remote::credentials::keys::Keys;
use crate::remote::escape;
use crate::remote::request::{Header, Request};

/// The hash of no bytes: that of the body of every request that we send.
const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Signs `request` for S3 in `region`. Its path has to be in the canonical form that [`escape::path_of_key`] gives, its
/// query in that of [`canonical_query`]; the signature covers host, path, query, time and session token, not the range.
#[must_use]
pub fn sign(mut request: Request, keys: &Keys, region: &str, now: SystemTime) -> Request {
    let stamp = stamp(now);
    request.headers.push(Header::plain("x-amz-content-sha256", EMPTY_SHA256));
    request.headers.push(Header::plain("x-amz-date", &stamp));
    if let Some(token) = &keys.session_token {
        request.headers.push(Header::secret("x-amz-security-token", token.reveal()));
    }
    let host = request.origin.to_string();
    let mut signed = vec![("host", host.as_str())];
    let own = request.headers.iter().filter(|header| header.name.starts_with("x-amz-"));
    signed.extend(own.map(|header| (header.name.as_str(), header.value.as_str())));
    let authorization = authorization(&request, &mut signed, keys, region, &stamp);
    request.headers.push(Header::secret("authorization", authorization));
    request
}

/// `20130524T000000Z`. A clock before 1970 counts as 1970.
fn stamp(now: SystemTime) -> String {
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let time = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.unwrap_or_default().format_iso8601()
}

fn authorization(
    request: &Request,
    signed: &mut [(&str, &str)],
    keys: &Keys,
    region: &str,
    stamp: &str,
) -> String {
    signed.sort_unstable();
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    let lines: String = signed.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
    let names: Vec<&str> = signed.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let method = request.method.as_str();
    let canonical = format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{EMPTY_SHA256}");
    let day = stamp.get(..8).unwrap_or_default();
    let scope = format!("{day}/{region}/s3/aws4_request");
    let text = format!("AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{}", hex_sha256(canonical.as_bytes()));
    let secret = format!("AWS4{}", keys.secret_key.reveal());
    let parts = [day, region, "s3", "aws4_request"];
    let key = parts.iter().fold(secret.into_bytes(), |key, part| hmac_sha256(&key, part.as_bytes()));
    let signature = hex_hmac_sha256(&key, text.as_bytes());
    let access_key = keys.access_key.reveal();
    format!("AWS4-HMAC-SHA256 Credential={access_key}/{scope}, SignedHeaders={names}, Signature={signature}")
}

/// A query as it is signed and sent: names and values decoded, encoded anew, sorted.
#[must_use]
pub fn canonical_query(query: &str) -> String {
    let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (escape::component(&escape::decode(name)), escape::component(&escape::decode(value)))
    });
    let mut pairs: Vec<(String, String)> = pairs.collect();
    pairs.sort_unstable();
    let pairs: Vec<String> = pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join("&")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::remote::request::{Method, Origin, Scheme};

    /// The keys, the bucket and the day of the examples in AWS's documentation of Signature Version 4 for S3.
    fn example(target: &str) -> (Request, Keys) {
        let host = "examplebucket.s3.amazonaws.com".to_owned();
        let origin = Origin { scheme: Scheme::Https, host, port: 443 };
        let keys = Keys::new("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
        (Request::new(Method::Get, origin, target), keys)
    }

    fn day() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_369_353_600)
    }

    fn header<'a>(request: &'a Request, name: &str) -> &'a Header {
        request.headers.iter().find(|header| header.name == name).unwrap()
    }

    #[test]
    fn the_documented_examples_give_the_documented_signatures() {
        for (target, signature) in [
            ("/?lifecycle=", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
            ("/?max-keys=2&prefix=J", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
        ] {
            let (request, keys) = example(target);
            let signed = sign(request, &keys, "us-east-1", day());
            assert_eq!(header(&signed, "x-amz-date").value, "20130524T000000Z");
            assert_eq!(
                header(&signed, "authorization").value,
                format!(
                    "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, \
                     SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature={signature}"
                )
            );
        }
    }

    #[test]
    fn the_documented_ranged_get_gives_the_documented_signature() {
        let (request, keys) = example("/test.txt");
        let host = request.origin.to_string();
        let mut signed = [
            ("x-amz-date", "20130524T000000Z"),
            ("range", "bytes=0-9"),
            ("host", host.as_str()),
            ("x-amz-content-sha256", EMPTY_SHA256),
        ];
        let text = authorization(&request, &mut signed, &keys, "us-east-1", "20130524T000000Z");
        let signature = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";
        assert!(text.ends_with(signature), "{text}");
    }

    #[test]
    fn a_session_token_is_sent_and_signed_and_nothing_secret_prints() {
        let (request, keys) = example("/k");
        let keys = keys.with_token(Some("planted-token".to_owned()));
        let signed = sign(request, &keys, "us-east-1", day());
        assert_eq!(header(&signed, "x-amz-security-token").value, "planted-token");
        let authorization = &header(&signed, "authorization").value;
        assert!(
            authorization
                .contains("SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token,")
        );
        let shown = format!("{signed:?} {keys:?}");
        assert!(!shown.contains("planted") && !shown.contains("AKIA"), "{shown}");
    }

    #[test]
    fn the_range_is_not_part_of_the_signature() {
        let (request, keys) = example("/k");
        let ranged = request.clone().with(Header::plain("range", "bytes=5-6"));
        let one = sign(request, &keys, "us-east-1", day());
        let other = sign(ranged, &keys, "us-east-1", day());
        assert_eq!(header(&one, "authorization").value, header(&other, "authorization").value);
    }

    #[test]
    fn queries_are_sorted_and_encoded_once() {
        assert_eq!(canonical_query("b=2&a=x y&a=%2f+&versionId"), "a=%2F%2B&a=x%20y&b=2&versionId=");
        assert_eq!(canonical_query(""), "");
        let _ = stamp(UNIX_EPOCH - Duration::from_secs(5));
        let _ = stamp(UNIX_EPOCH + Duration::from_secs(u64::from(u32::MAX) * 1000));
    }
}
