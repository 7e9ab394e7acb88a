//! Good and bad addresses.

use proptest::prelude::*;

use super::*;

#[test]
fn good_urls_go_to_the_wire_as_they_are_meant() {
    for (text, origin, target) in [
        ("http://h/x", "http h 80", "/x"),
        ("HTTP://Host.Example/X", "http host.example 80", "/X"),
        ("https://h", "https h 443", "/"),
        ("https://h:8443/a/b", "https h 8443", "/a/b"),
        ("http://h:/x", "http h 80", "/x"),
        ("http:/h/x", "http h 80", "/x"),
        ("http:///h/x", "http h 80", "/x"),
        ("http://my_host-1/x", "http my_host-1 80", "/x"),
        ("http://h./x", "http h. 80", "/x"),
        ("http://127.0.0.1:9000/b/k", "http 127.0.0.1 9000", "/b/k"),
        ("http://[::1]:80/x", "http ::1 80", "/x"),
        ("http://[2001:DB8:0::1]/x", "http 2001:db8::1 80", "/x"),
        ("http://h/a b", "http h 80", "/a%20b"),
        ("http://h/a%20b", "http h 80", "/a%20b"),
        ("http://h/a%2Fb%2fc", "http h 80", "/a%2Fb%2fc"),
        ("http://h/ü", "http h 80", "/%C3%BC"),
        ("http://h/100%", "http h 80", "/100%25"),
        ("http://h//a/./b/../c", "http h 80", "//a/./b/../c"),
        ("http://h/a;b=c,d+e&f'(g)*!@:$", "http h 80", "/a;b=c,d+e&f'(g)*!@:$"),
        ("http://h/a[1]{2}|3", "http h 80", "/a[1]%7B2%7D%7C3"),
        ("http://h?q=1", "http h 80", "/?q=1"),
        ("http://h/x?a=b?c/d", "http h 80", "/x?a=b?c/d"),
        ("http://h/x?a b=ü", "http h 80", "/x?a%20b=%C3%BC"),
        ("http://h/x?", "http h 80", "/x?"),
        ("http://h/x#part?no", "http h 80", "/x"),
        ("http://h#part", "http h 80", "/"),
        ("http://user:pw@h:81/x", "http h 81", "/x"),
        ("http://a@b@h/x", "http h 80", "/x"),
        ("http://@h/x", "http h 80", "/x"),
        ("http://h/x@y:z", "http h 80", "/x@y:z"),
    ] {
        let url = Url::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let to = url.origin().unwrap();
        assert_eq!(format!("{} {} {}", to.scheme.as_str(), to.host, to.port), origin, "{text}");
        assert_eq!(url.target(), target, "{text}");
    }
}

#[test]
fn bad_urls_are_told_what_is_wrong_with_them() {
    for (text, words) in [
        ("", "Malformed input to a URL function"),
        ("   ", "Malformed input to a URL function"),
        (" http://h/x", "Malformed input to a URL function"),
        ("http://h/x\r\nHost: evil", "Malformed input to a URL function"),
        ("http://h/\0", "Malformed input to a URL function"),
        ("http://h/\t", "Malformed input to a URL function"),
        ("http://h/\x7f", "Malformed input to a URL function"),
        ("example.com/x", "Bad scheme"),
        ("://b/k", "Bad scheme"),
        ("/local/path", "Bad scheme"),
        ("1http://h/x", "Bad scheme"),
        ("ht tp://h/x", "Bad scheme"),
        ("schéme://h/x", "Bad scheme"),
        ("h:80/x", "Unsupported number of slashes following scheme"),
        ("http:h/x", "Unsupported number of slashes following scheme"),
        ("http:////h/x", "Unsupported number of slashes following scheme"),
        ("http://", "No host part in the URL"),
        ("http://?x", "No host part in the URL"),
        ("http://#x", "No host part in the URL"),
        ("http://:80/x", "No host part in the URL"),
        ("http://user@/x", "No host part in the URL"),
        ("http://h:0/x", "Port number was not a decimal number"),
        ("http://h:65536/x", "Port number was not a decimal number"),
        ("http://h:+80/x", "Port number was not a decimal number"),
        ("http://h:8a/x", "Port number was not a decimal number"),
        ("http://::1/x", "Port number was not a decimal number"),
        ("http://[::1]8/x", "Port number was not a decimal number"),
        ("http://[::1/x", "Bad IPv6 address"),
        ("http://[::g]/x", "Bad IPv6 address"),
        ("http://[fe80::1%25eth0]/x", "Bad IPv6 address"),
        ("http://[]/x", "Bad IPv6 address"),
        ("http://a b/x", "Bad hostname"),
        ("http://a{b}/x", "Bad hostname"),
        ("http://a<b/x", "Bad hostname"),
        ("http://a\\b/x", "Bad hostname"),
        ("http://a^b/x", "Bad hostname"),
        ("http://a`b/x", "Bad hostname"),
        ("http://a%20b/x", "Bad hostname"),
        ("http://bücher.example/x", "Bad hostname: write an international name"),
    ] {
        let error = Url::parse(text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidUrl, "{text:?}");
        assert!(error.message().contains(words), "{text:?}: {error}");
    }
    let error = Url::parse("ftp://h/x").unwrap().origin().unwrap_err();
    assert!(error.message().contains("Unsupported URL scheme"), "{error}");
}

#[test]
fn the_user_becomes_a_secret_header() {
    let header = Url::parse("http://us%65r:p%40ss:word@h/x").unwrap().authorization().unwrap();
    assert_eq!((header.name.as_str(), header.is_secret), ("authorization", true));
    assert_eq!(header.value, format!("Basic {}", base64_encode(b"user:p@ss:word")));
    assert_eq!(Url::parse("http://h/x").unwrap().authorization(), None);
}

#[test]
fn subjects_show_neither_user_nor_signature() {
    let url = "https://user:planted@h:81/k?X-Amz-Algorithm=A&X-Amz-Signature=planted&x=1\
               &X-Amz-Credential=planted&X%2DAmz-Security-Token=planted;sig=planted&Key=planted#planted";
    let url = Url::parse(url).unwrap();
    assert_eq!(
        url.subject(),
        "https://h:81/k?X-Amz-Algorithm=A&X-Amz-Signature=***&x=1&X-Amz-Credential=***\
         &X%2DAmz-Security-Token=***;sig=***&Key=***"
    );
    assert!(!format!("{url:?}").contains("planted"));
    for broken in ["http://u:planted@h:x/", "u:planted@h/x", "http:u:planted@h", "x://[::?sig=planted"] {
        assert!(!Url::parse(broken).unwrap_err().to_string().contains("planted"), "{broken}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic_or_leak(text: String, user in "[a-z/:@#?]{0,8}", tail in "\\PC{0,20}") {
        let _ = Url::parse(&text);
        let text = format!("http://{user}PLANTED@h/p?X-Amz-Signature=PLANTED&{tail}");
        match Url::parse(&text) {
            // A user with `/`, `?` or `#` ends the host early, and then is no user.
            Ok(url) if !user.contains(['/', '?', '#']) => prop_assert!(!url.subject().contains("PLANTED")),
            Ok(url) => {
                let target = url.target();
                prop_assert!(target.starts_with('/') && target.bytes().all(|byte| byte.is_ascii_graphic()));
            }
            Err(error) => prop_assert!(!error.to_string().contains("PLANTED")),
        }
    }
}
