//! Which proxy a request goes through, by the variables that curl and its kin read.
//!
//! `http_proxy` counts in lower case only: a web server puts a request's `Proxy:` header into `HTTP_PROXY`.

use std::fmt;
use std::net::IpAddr;

use crate::error::{Error, ErrorKind, Result};
use crate::options::Environment;
use crate::remote::request::{Header, Origin, Scheme};
use crate::remote::wire::base64;
use crate::remote::wire::head::line;
use crate::remote::wire::location::host_and_port;

/// The port of a proxy where the variable names none, as curl has it.
const PORT: u16 = 1080;

/// A proxy that speaks HTTP.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    /// A name in lower case, or an address without brackets.
    pub host: String,
    /// The TCP port.
    pub port: u16,
    /// What it wants to see of us: to be sent to the proxy only.
    pub authorization: Option<Header>,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "proxy {}:{}", self.host, self.port)
    }
}

impl Proxy {
    /// The bytes that ask for a tunnel to `origin`. Its answer is 2xx, without a body, or a refusal.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] where the host's name would break a line.
    pub fn connect_request(&self, origin: &Origin) -> Result<Vec<u8>> {
        let host = if origin.host.contains(':') { format!("[{}]", origin.host) } else { origin.host.clone() };
        let authority = format!("{host}:{}", origin.port);
        let mut bytes = format!("CONNECT {authority} HTTP/1.1\r\n").into_bytes();
        line(&mut bytes, "host", &authority)?;
        if let Some(header) = &self.authorization {
            line(&mut bytes, &header.name, &header.value)?;
        }
        bytes.extend_from_slice(b"\r\n");
        Ok(bytes)
    }
}

/// The proxies of an environment.
#[derive(Debug, Clone, Default)]
pub struct Proxies {
    http: Option<Result<Proxy>>,
    https: Option<Result<Proxy>>,
    without: Vec<Exception>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Exception {
    All,
    Name { suffix: String, port: Option<u16> },
    Addresses { network: IpAddr, bits: u32, port: Option<u16> },
}

impl Proxies {
    /// Reads `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy`. A malformed one is an error only where used.
    #[must_use]
    pub fn read(environment: &Environment<'_>) -> Self {
        let get = |name: &'static str| environment.get(name).filter(|text| !text.trim().is_empty());
        let first = |names: &[&'static str]| {
            names.iter().find_map(|name| get(name).map(|text| parse(name, text.trim())))
        };
        let without = get("no_proxy").or_else(|| get("NO_PROXY")).unwrap_or_default();
        let words = without.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
        Self {
            http: first(&["http_proxy", "all_proxy", "ALL_PROXY"]),
            https: first(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]),
            without: words.filter_map(exception).collect(),
        }
    }

    /// The proxy that leads to `origin`; `None` where the way is direct.
    ///
    /// Through a proxy, an http request has its whole address in the request line, an https request goes through a
    /// tunnel ([`Proxy::connect_request`]).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidUrl`] naming the variable, where it names no proxy that we can use.
    pub fn via(&self, origin: &Origin) -> Result<Option<&Proxy>> {
        let proxy = match origin.scheme {
            Scheme::Http => &self.http,
            Scheme::Https => &self.https,
        };
        match proxy {
            Some(_) if is_link_local(origin) => Ok(None),
            Some(_) if self.without.iter().any(|exception| exception.covers(origin)) => Ok(None),
            Some(proxy) => proxy.as_ref().map(Some).map_err(Clone::clone),
            None => Ok(None),
        }
    }
}

/// True for an address that exists on this link only, as that of a machine's metadata: a proxy would reach its own, and
/// would see the tokens that are asked for there.
fn is_link_local(origin: &Origin) -> bool {
    match origin.host.parse() {
        Ok(IpAddr::V4(address)) => address.is_link_local(),
        Ok(IpAddr::V6(address)) => address.is_unicast_link_local(),
        Err(_name) => false,
    }
}

impl Exception {
    fn covers(&self, origin: &Origin) -> bool {
        let is_port = |port: &Option<u16>| port.is_none_or(|port| port == origin.port);
        match self {
            Self::All => true,
            Self::Name { suffix, port } => {
                let host = origin.host.trim_end_matches('.');
                let before = host.strip_suffix(suffix.as_str());
                let is_name = host.parse::<IpAddr>().is_err();
                is_name
                    && is_port(port)
                    && before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
            }
            Self::Addresses { network, bits, port } => {
                is_port(port)
                    && origin.host.parse().is_ok_and(|address| same_network(*network, address, *bits))
            }
        }
    }
}

fn exception(word: &str) -> Option<Exception> {
    if word == "*" {
        return Some(Exception::All);
    }
    if let Some((network, bits)) = word.split_once('/') {
        let network: IpAddr = unbracketed(network).parse().ok()?;
        let bits = bits.parse().ok().filter(|bits| *bits <= width(network))?;
        return Some(Exception::Addresses { network, bits, port: None });
    }
    if let Ok(network) = unbracketed(word).parse() {
        return Some(Exception::Addresses { network, bits: width(network), port: None });
    }
    let (host, port) = host_and_port(word.trim_start_matches("*.").trim_start_matches('.')).ok()?;
    let port = if port.is_empty() { None } else { Some(port.parse().ok()?) };
    Some(match host.parse() {
        Ok(network) => Exception::Addresses { network, bits: width(network), port },
        Err(_) => Exception::Name { suffix: host.trim_end_matches('.').to_owned(), port },
    })
}

fn unbracketed(text: &str) -> &str {
    text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text)
}

fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn same_network(one: IpAddr, two: IpAddr, bits: u32) -> bool {
    let differs = match (one, two) {
        (IpAddr::V4(one), IpAddr::V4(two)) => u128::from(one.to_bits() ^ two.to_bits()) << 96,
        (IpAddr::V6(one), IpAddr::V6(two)) => one.to_bits() ^ two.to_bits(),
        _ => return false,
    };
    differs.leading_zeros() >= bits
}

/// `[http://][USER[:PASSWORD]@]HOST[:PORT][/]`. What is wrong is told without the value, which may hold a password.
fn parse(name: &str, text: &str) -> Result<Proxy> {
    let refuse = |why: &str| {
        let hint = "expected http://host:port, or put the host into no_proxy";
        Error::new(ErrorKind::InvalidUrl, "read the environment", format!("{name}: {why}; {hint}"))
    };
    let rest = match text.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
        Some((scheme, _)) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
            return Err(refuse(&format!("proxies that speak {scheme} are not supported")));
        }
        Some(_) => return Err(refuse("not a proxy's address")),
        None => text,
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (user, authority) = match authority.rsplit_once('@') {
        Some((user, authority)) => (Some(user), authority),
        None => (None, authority),
    };
    let (host, port) = host_and_port(authority).map_err(|_| refuse("no usable host"))?;
    let port = if port.is_empty() { Some(PORT) } else { port.parse().ok().filter(|port| *port > 0) };
    let authorization = user.map(|user| {
        let user = percent_decoded(if user.contains(':') { user.to_owned() } else { format!("{user}:") });
        Header::secret("proxy-authorization", format!("Basic {}", base64::encode(&user)))
    });
    Ok(Proxy { host, port: port.ok_or_else(|| refuse("no usable port"))?, authorization })
}

fn percent_decoded(text: String) -> Vec<u8> {
    let bytes = text.into_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes.as_slice();
    while let [first, after @ ..] = rest {
        let pair = after.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        let value = pair.filter(|pair| pair.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match value.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(byte) if *first == b'%' => {
                decoded.push(byte);
                rest = &after[2..];
            }
            _ => {
                decoded.push(*first);
                rest = after;
            }
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn proxies(pairs: &[(&str, &str)]) -> Proxies {
        Proxies::read(&Environment::of(|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
        }))
    }

    fn to(scheme: Scheme, host: &str) -> Origin {
        Origin { scheme, host: host.to_owned(), port: scheme.default_port() }
    }

    fn via(pairs: &[(&str, &str)], scheme: Scheme) -> Option<String> {
        let found = proxies(pairs).via(&to(scheme, "e.com")).unwrap().cloned();
        found.map(|proxy| format!("{}:{}", proxy.host, proxy.port))
    }

    #[test]
    fn a_machine_asks_for_its_own_metadata_itself() {
        let proxies = proxies(&[("http_proxy", "p:3128"), ("https_proxy", "p:3128")]);
        for host in ["169.254.169.254", "169.254.170.2", "fe80::1"] {
            assert_eq!(proxies.via(&to(Scheme::Http, host)).unwrap(), None, "{host}");
        }
        for host in ["169.253.169.254", "fd00::1", "169.254.e.com"] {
            assert!(proxies.via(&to(Scheme::Http, host)).unwrap().is_some(), "{host}");
        }
    }

    #[test]
    fn each_scheme_has_its_variables() {
        let p = |host: &str| Some(format!("{host}:3128"));
        assert_eq!(via(&[], Scheme::Http), None);
        assert_eq!(via(&[("http_proxy", "http://P:3128/")], Scheme::Http), p("p"));
        assert_eq!(via(&[("http_proxy", "p:3128")], Scheme::Https), None);
        assert_eq!(via(&[("HTTP_PROXY", "p:3128")], Scheme::Http), None, "a request's header must not count");
        assert_eq!(via(&[("https_proxy", "p:3128"), ("HTTPS_PROXY", "q:3128")], Scheme::Https), p("p"));
        assert_eq!(via(&[("HTTPS_PROXY", "q:3128"), ("all_proxy", "r:3128")], Scheme::Https), p("q"));
        assert_eq!(via(&[("ALL_PROXY", "r:3128"), ("http_proxy", "")], Scheme::Http), p("r"));
        assert_eq!(via(&[("all_proxy", "[::1]")], Scheme::Http), Some("::1:1080".to_owned()));
    }

    #[test]
    fn hosts_are_left_out_by_name_and_network() {
        for (without, host, direct) in [
            ("*", "e.com", true),
            ("e.com", "e.com", true),
            (".e.com", "e.com", true),
            (".E.com", "a.e.com", true),
            ("*.e.com", "a.e.com", true),
            ("e.com", "a.e.com.", true),
            ("e.com", "fe.com", false),
            ("a.com, e.com", "e.com", true),
            ("a.com b.com", "b.com", true),
            ("e.com:80", "e.com", true),
            ("e.com:81", "e.com", false),
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "11.1.2.3", false),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1:80", "127.0.0.1", true),
            ("0.0.1", "127.0.0.1", false),
            ("[::1]", "::1", true),
            ("fe80::/10", "fe80::1", true),
            ("fe80::/10", "::1", false),
            ("::/0", "1.2.3.4", false),
            ("10.0.0.0/33", "10.0.0.0", false),
            ("", "e.com", false),
        ] {
            let proxies = proxies(&[("http_proxy", "p:1"), ("no_proxy", without)]);
            let found = proxies.via(&to(Scheme::Http, host)).unwrap();
            assert_eq!(found.is_none(), direct, "{without:?} {host}");
        }
    }

    #[test]
    fn a_password_goes_to_the_proxy_and_nowhere_else() {
        let proxies = proxies(&[("https_proxy", "http://us%40er:PLANTED@p:8080"), ("no_proxy", "NO")]);
        let proxy = proxies.via(&to(Scheme::Https, "e.com")).unwrap().unwrap();
        let header = proxy.authorization.as_ref().unwrap();
        assert_eq!(header.value, format!("Basic {}", base64::encode(b"us@er:PLANTED")));
        assert!(header.is_secret);
        let printed = format!("{proxies:?} {proxy:?} {header:?}");
        assert!(!printed.contains("PLANTED") && !printed.contains("Basic"), "{printed}");
        let sent = String::from_utf8(proxy.connect_request(&to(Scheme::Https, "::1")).unwrap()).unwrap();
        assert!(
            sent.starts_with("CONNECT [::1]:443 HTTP/1.1\r\nhost: [::1]:443\r\nproxy-authorization: Basic ")
        );
        assert!(sent.ends_with("\r\n\r\n"));
        let broken = to(Scheme::Https, "a\r\nb");
        assert!(proxy.connect_request(&broken).is_err());
    }

    #[test]
    fn an_unusable_proxy_is_an_error_where_it_would_be_used() {
        for text in
            ["socks5://PLANTED@p:1", "https://p:1", "http://", "p:0", "p:x", "http://u:PLANTED@/", "a b"]
        {
            let proxies = proxies(&[("http_proxy", text), ("no_proxy", "near")]);
            let error = proxies.via(&to(Scheme::Http, "e.com")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidUrl, "{text}");
            assert!(
                error.message().contains("http_proxy: ") && error.message().contains("no_proxy"),
                "{error}"
            );
            assert!(!format!("{error:?}{proxies:?}").contains("PLANTED"), "{error}");
            assert!(proxies.via(&to(Scheme::Http, "near")).unwrap().is_none());
            assert!(proxies.via(&to(Scheme::Https, "e.com")).unwrap().is_none());
        }
    }

    #[test]
    fn percent_signs_are_decoded_where_they_can_be() {
        assert_eq!(percent_decoded("%41%zz%4".to_owned()), b"A%zz%4");
    }
}
