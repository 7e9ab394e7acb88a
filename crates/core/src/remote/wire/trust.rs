//! Whom TLS trusts: the CA certificates of the environment or of the system, read at the first https connection.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore};

use crate::error::{Error, ErrorKind, Result};
use crate::options::Environment;

/// The variables that name CA certificates, the first one set counts.
const VARIABLES: [&str; 3] = ["CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"];
/// Where distributions keep their bundles, in the order in which they are tried,
const BUNDLES: [&str; 8] = [
    "etc/ssl/certs/ca-certificates.crt",
    "etc/pki/tls/certs/ca-bundle.crt",
    "etc/ssl/ca-bundle.pem",
    "etc/pki/tls/cert.pem",
    "etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "usr/share/ssl/certs/ca-bundle.crt",
    "usr/local/share/certs/ca-root-nss.crt",
    "etc/ssl/cert.pem",
];
/// and folders of single certificates.
const FOLDERS: [&str; 2] = ["etc/ssl/certs", "etc/pki/tls/certs"];

/// Whom TLS trusts.
#[derive(Debug)]
pub struct Trust {
    anchors: Anchors,
    loaded: OnceLock<Result<Loaded>>,
}

#[derive(Debug)]
enum Anchors {
    File(&'static str, PathBuf),
    Folders(&'static str, Vec<PathBuf>),
    /// The system's, below this folder.
    System(PathBuf),
}

#[derive(Debug)]
struct Loaded {
    config: Arc<ClientConfig>,
    /// Where the certificates came from, in words.
    origin: String,
}

impl Trust {
    /// Whom `environment` says to trust, else the system's certificates. Nothing is opened yet.
    #[must_use]
    pub fn read(environment: &Environment<'_>) -> Self {
        Self::below(environment, Path::new("/"))
    }

    /// The same with the system's files below `root`.
    #[must_use]
    pub fn below(environment: &Environment<'_>, root: &Path) -> Self {
        let get = |name| environment.get(name).filter(|text| !text.is_empty());
        let [bundle, file, folder] = VARIABLES;
        let single = [bundle, file].into_iter().find_map(|name| Some((name, get(name)?)));
        let anchors = match (single, get(folder)) {
            (Some((name, path)), _) => Anchors::File(name, path.into()),
            (None, Some(paths)) => Anchors::Folders(folder, paths.split(':').map(PathBuf::from).collect()),
            (None, None) => Anchors::System(root.to_owned()),
        };
        Self { anchors, loaded: OnceLock::new() }
    }

    /// How connections speak TLS: made once, so that they share what resumes a session. Reads files at first.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] naming what was looked for, where there are no certificates to trust.
    pub fn config(&self) -> Result<Arc<ClientConfig>> {
        Ok(self.loaded()?.config.clone())
    }

    fn loaded(&self) -> Result<&Loaded> {
        self.loaded.get_or_init(|| self.load()).as_ref().map_err(Clone::clone)
    }

    fn load(&self) -> Result<Loaded> {
        let (roots, origin) = match &self.anchors {
            Anchors::File(name, path) => {
                let origin = format!("{} ({name})", path.display());
                (from_file(path).map_err(|why| unusable(&origin, &why))?, origin)
            }
            Anchors::Folders(name, paths) => {
                let shown: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
                let origin = format!("{} ({name})", shown.join(":"));
                let mut roots = RootCertStore::empty();
                paths.iter().for_each(|path| add_folder(&mut roots, path));
                if roots.is_empty() {
                    return Err(unusable(&origin, "no file there holds a certificate"));
                }
                (roots, origin)
            }
            Anchors::System(root) => system(root)?,
        };
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::new(ErrorKind::Unavailable, "set up TLS", error.to_string()))?;
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Loaded { config: Arc::new(config), origin })
    }

    /// An error of TLS in plain words: what is wrong with the server's certificate, and what to do.
    #[must_use]
    pub fn explain(&self, error: &rustls::Error, host: &str) -> Error {
        let origin = self.loaded().map_or("none", |loaded| loaded.origin.as_str());
        let words = match error {
            rustls::Error::InvalidCertificate(flaw) => certificate(flaw, host, origin),
            rustls::Error::InvalidMessage(_) => {
                format!("{host} does not speak TLS on this port: is it an http address?")
            }
            rustls::Error::AlertReceived(
                AlertDescription::HandshakeFailure | AlertDescription::ProtocolVersion,
            )
            | rustls::Error::PeerIncompatible(_) => {
                format!("{host} offers no TLS that we speak (TLS 1.2 and 1.3 with common ciphers): {error}")
            }
            _ => format!("TLS with {host} failed: {error}"),
        };
        Error::new(ErrorKind::Connection, "connect", words).because(error.clone())
    }
}

fn certificate(flaw: &CertificateError, host: &str, origin: &str) -> String {
    let [bundle, file, folder] = VARIABLES;
    let what = match flaw {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "has expired (or this machine's clock is wrong)".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "is not valid yet (or this machine's clock is wrong)".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "was issued for another host".to_owned()
        }
        // A bad signature is the same with an authority that was made anew under its old name.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => format!(
            "comes from an authority that is not among the trusted ones in {origin}; name a file or folder \
             that holds it in {bundle}, {file} or {folder}"
        ),
        CertificateError::Revoked => "has been revoked".to_owned(),
        other => format!("is not accepted: {}", rustls::Error::InvalidCertificate(other.clone())),
    };
    format!("the certificate of {host} {what}")
}

/// The name by which the server's certificate is checked: a host name, or an address without brackets.
///
/// # Errors
/// [`ErrorKind::InvalidUrl`] where it is neither.
pub fn server_name(host: &str) -> Result<ServerName<'static>> {
    let name = host.strip_suffix('.').unwrap_or(host).to_owned();
    ServerName::try_from(name).map_err(|_| {
        Error::new(ErrorKind::InvalidUrl, "connect", format!("{host} cannot be the name of a host"))
    })
}

/// The system's certificates and where they were found.
fn system(root: &Path) -> Result<(RootCertStore, String)> {
    for path in BUNDLES.map(|path| root.join(path)) {
        if let Ok(roots) = from_file(&path) {
            return Ok((roots, path.display().to_string()));
        }
    }
    for path in FOLDERS.map(|path| root.join(path)) {
        let mut roots = RootCertStore::empty();
        add_folder(&mut roots, &path);
        if !roots.is_empty() {
            return Ok((roots, path.display().to_string()));
        }
    }
    let [bundle, file, folder] = VARIABLES;
    let hint = format!("install the package ca-certificates, or set {bundle}, {file} or {folder}");
    Err(unavailable(format!("Failed to find accessible CA certificates. (To have some, {hint}.)")))
}

fn from_file(path: &Path) -> std::result::Result<RootCertStore, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let mut roots = RootCertStore::empty();
    add(&mut roots, &bytes);
    if roots.is_empty() { Err("it holds no certificate in PEM form".to_owned()) } else { Ok(roots) }
}

/// Adds the certificates of all files in a folder; what is no certificate is passed over.
fn add_folder(roots: &mut RootCertStore, path: &Path) {
    let Ok(entries) = std::fs::read_dir(path) else { return };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths.iter().filter(|path| path.is_file()) {
        if let Ok(bytes) = std::fs::read(path) {
            add(roots, &bytes);
        }
    }
}

/// Bundles of old distributions hold certificates that nobody can read: those are passed over.
fn add(roots: &mut RootCertStore, pem: &[u8]) {
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(pem).flatten());
}

fn unusable(origin: &str, why: &str) -> Error {
    unavailable(format!("CA certificates cannot be read from {origin}: {why}"))
}

fn unavailable(message: String) -> Error {
    Error::new(ErrorKind::Unavailable, "set up TLS", message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::ffi::OsString;

    use kvikio_testkit::server::{Authority, Flaw};

    fn trust(root: &Path, pairs: &[(&str, &Path)]) -> Trust {
        let pairs: HashMap<&str, OsString> =
            pairs.iter().map(|(name, path)| (*name, path.as_os_str().to_owned())).collect();
        Trust::below(&Environment::of(|name| pairs.get(name).cloned()), root)
    }

    /// A handshake in memory.
    fn shake(
        trust: &Trust,
        server: Arc<rustls::ServerConfig>,
        host: &str,
    ) -> std::result::Result<(), rustls::Error> {
        let mut client = rustls::ClientConnection::new(trust.config().unwrap(), server_name(host).unwrap())?;
        let mut server = rustls::ServerConnection::new(server)?;
        while client.is_handshaking() || server.is_handshaking() {
            let mut wire = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut wire).unwrap();
            }
            server.read_tls(&mut wire.as_slice()).unwrap();
            server.process_new_packets()?;
            let mut wire = Vec::new();
            while server.wants_write() {
                server.write_tls(&mut wire).unwrap();
            }
            client.read_tls(&mut wire.as_slice()).unwrap();
            client.process_new_packets()?;
        }
        assert_eq!(client.alpn_protocol(), Some(&b"http/1.1"[..]));
        Ok(())
    }

    #[test]
    fn the_variables_are_asked_in_their_order_and_before_the_system() {
        let dir = tempfile::tempdir().unwrap();
        let pem = |name: &str, authority: &Authority| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, authority.pem()).unwrap();
            path
        };
        let authorities: Vec<Authority> = (0..4).map(|_| Authority::new()).collect();
        let system = dir.path().join("root");
        let bundle = pem("root/etc/pki/tls/certs/ca-bundle.crt", &authorities[0]);
        let folder = pem("folder/any name", &authorities[1]);
        std::fs::write(dir.path().join("folder/README"), "no certificate").unwrap();
        let (file, curl) = (pem("file", &authorities[2]), pem("curl", &authorities[3]));
        let folder = ("SSL_CERT_DIR", folder.parent().unwrap());
        let file = ("SSL_CERT_FILE", file.as_path());
        let curl = ("CURL_CA_BUNDLE", curl.as_path());
        let empty = ("CURL_CA_BUNDLE", Path::new(""));
        for (index, pairs) in [&[empty][..], &[folder][..], &[folder, file][..], &[folder, file, curl][..]]
            .into_iter()
            .enumerate()
        {
            let trust = trust(&system, pairs);
            for (other, authority) in authorities.iter().enumerate() {
                let shaken = shake(&trust, authority.server(Flaw::None), "localhost");
                assert_eq!(shaken.is_ok(), other == index, "{pairs:?} {other}: {shaken:?}");
            }
        }
        std::fs::remove_file(bundle).unwrap();
        std::fs::create_dir_all(system.join("etc/ssl/certs")).unwrap();
        std::fs::write(system.join("etc/ssl/certs/a.0"), authorities[1].pem()).unwrap();
        shake(&trust(&system, &[]), authorities[1].server(Flaw::None), "127.0.0.1").unwrap();
    }

    #[test]
    fn without_certificates_the_error_says_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let error = trust(dir.path(), &[]).config().unwrap_err();
        assert!(error.message().starts_with("Failed to find accessible CA certificates."), "{error}");
        assert!(error.message().contains("SSL_CERT_FILE"), "{error}");
        let missing = dir.path().join("missing");
        let empty = dir.path().join("empty");
        std::fs::write(&empty, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
        for (name, path) in
            [("CURL_CA_BUNDLE", &missing), ("SSL_CERT_FILE", &empty), ("SSL_CERT_DIR", &missing)]
        {
            let error = trust(dir.path(), &[(name, path)]).config().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert!(error.message().contains(name), "{error}");
            assert!(error.message().contains(&path.display().to_string()), "{error}");
        }
    }

    #[test]
    fn a_refused_certificate_is_told_in_plain_words() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new();
        let path = authority.write_to(dir.path());
        let trust = trust(dir.path(), &[("SSL_CERT_FILE", &path)]);
        let stranger = Authority::new();
        for (server, words) in [
            (authority.server(Flaw::Expired), "has expired"),
            (authority.server(Flaw::NotYet), "not valid yet"),
            (authority.server(Flaw::WrongHost), "issued for another host"),
            (stranger.server(Flaw::None), "CURL_CA_BUNDLE, SSL_CERT_FILE or SSL_CERT_DIR"),
        ] {
            let error = trust.explain(&shake(&trust, server, "localhost").unwrap_err(), "localhost");
            assert_eq!(error.kind(), ErrorKind::Connection);
            assert!(error.message().contains(words) && error.message().contains("localhost"), "{error}");
        }
        let error = shake(&trust, stranger.server(Flaw::None), "localhost").unwrap_err();
        let error = trust.explain(&error, "localhost");
        assert!(error.message().contains(&path.display().to_string()), "the file that was used: {error}");
        let mut client =
            rustls::ClientConnection::new(trust.config().unwrap(), server_name("h").unwrap()).unwrap();
        client.read_tls(&mut &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..]).unwrap();
        let error = trust.explain(&client.process_new_packets().unwrap_err(), "h");
        assert!(error.message().contains("does not speak TLS"), "{error}");
    }

    #[test]
    fn names_and_addresses_can_be_checked_and_nonsense_cannot() {
        for host in ["localhost", "a_b.example.com", "example.com.", "127.0.0.1", "::1"] {
            assert!(server_name(host).is_ok(), "{host}");
        }
        for host in ["", "a b", "[::1]", "a..b"] {
            assert!(server_name(host).is_err(), "{host}");
        }
    }
}
