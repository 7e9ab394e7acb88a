//! A certificate authority of our own, and certificates of it: good ones, and ones that must be refused.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// What is wrong with a server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// Nothing: it is for `localhost`, `127.0.0.1` and `::1`.
    None,
    /// It is for another host.
    WrongHost,
    /// Its time is over.
    Expired,
    /// Its time has not come.
    NotYet,
}

/// A certificate authority, made anew each time.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authority")
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// A new one.
    #[must_use]
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name.push(DnType::CommonName, "kvikio-testkit authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().expect("a key");
        Self { issuer: CertifiedIssuer::self_signed(params, key).expect("a certificate") }
    }

    /// Its certificate: what a client has to trust.
    #[must_use]
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Writes [`Authority::pem`] to a file in `dir`.
    pub fn write_to(&self, dir: &std::path::Path) -> PathBuf {
        let path = dir.join("authority.pem");
        std::fs::write(&path, self.pem()).expect("a writable folder");
        path
    }

    /// How a server with such a certificate speaks TLS.
    #[must_use]
    pub fn server(&self, flaw: Flaw) -> Arc<ServerConfig> {
        let names: &[&str] = match flaw {
            Flaw::WrongHost => &["elsewhere.example"],
            _ => &["localhost", "127.0.0.1", "::1"],
        };
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("good names");
        match flaw {
            Flaw::Expired => {
                params.not_before = date_time_ymd(2020, 1, 1);
                params.not_after = date_time_ymd(2020, 2, 1);
            }
            Flaw::NotYet => {
                params.not_before = date_time_ymd(4000, 1, 1);
                params.not_after = date_time_ymd(4001, 1, 1);
            }
            Flaw::None | Flaw::WrongHost => {}
        }
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring's own versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .expect("the key of the certificate");
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(config)
    }
}
