//! The certificates of one control plane: an authority of its own, a server, and clients by name and group.

use anyhow::{Context, Result};
use camino::{Utf8Path, Utf8PathBuf};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// A certificate and its key, as files.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The certificate, PEM.
    pub certificate: Utf8PathBuf,
    /// Its private key, PEM.
    pub key: Utf8PathBuf,
}

/// A certificate authority that lives as long as its cluster.
pub struct Authority {
    directory: Utf8PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Makes an authority whose files go to `directory`.
    pub fn create(directory: &Utf8Path) -> Result<Self> {
        std::fs::create_dir_all(directory).with_context(|| format!("make {directory}"))?;
        let key = KeyPair::generate().context("generate a key")?;
        let mut params = params("cluster-in-a-box", None, &[])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params
            .self_signed(&key)
            .context("sign the authority's certificate")?;
        let authority = Self {
            directory: directory.to_owned(),
            issuer: Issuer::new(params, key),
        };
        write_private(&authority.certificate(), &certificate.pem())?;
        Ok(authority)
    }

    /// The authority's own certificate.
    #[must_use]
    pub fn certificate(&self) -> Utf8PathBuf {
        self.directory.join("ca.crt")
    }

    /// A server that answers under `names` (addresses or host names).
    pub fn server(&self, name: &str, names: &[&str]) -> Result<Identity> {
        let mut params = params(name, None, names)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(name, &params)
    }

    /// A client that is known as `user`, in `group`.
    pub fn client(&self, file: &str, user: &str, group: Option<&str>) -> Result<Identity> {
        let mut params = params(user, group, &[])?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(file, &params)
    }

    /// A pair of keys without a certificate, `FILE.key` and `FILE.pub`, to sign service account tokens with.
    pub fn signing_keys(&self, file: &str) -> Result<()> {
        let pair = KeyPair::generate().context("generate a key")?;
        write_private(&self.directory.join(format!("{file}.key")), &pair.serialize_pem())?;
        write_private(
            &self.directory.join(format!("{file}.pub")),
            &pair.public_key_pem(),
        )
    }

    fn issue(&self, file: &str, params: &CertificateParams) -> Result<Identity> {
        let key = KeyPair::generate().context("generate a key")?;
        let certificate = params
            .signed_by(&key, &self.issuer)
            .with_context(|| format!("sign {file}"))?;
        let identity = Identity {
            certificate: self.directory.join(format!("{file}.crt")),
            key: self.directory.join(format!("{file}.key")),
        };
        write_private(&identity.certificate, &certificate.pem())?;
        write_private(&identity.key, &key.serialize_pem())?;
        Ok(identity)
    }
}

fn params(name: &str, group: Option<&str>, names: &[&str]) -> Result<CertificateParams> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).context("the names of a certificate")?;
    params.distinguished_name.push(DnType::CommonName, name);
    if let Some(group) = group {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    // A guest restored from a snapshot has a clock of the past for a moment: old and far-away dates suit it.
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(2100, 1, 1);
    Ok(params)
}

/// Writes a file that nobody but its owner can read.
pub fn write_private(path: &Utf8Path, text: &str) -> Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = std::fs::OpenOptions::new();
    options.create(true).write(true).truncate(true).mode(0o600);
    let mut file = options.open(path).with_context(|| format!("make {path}"))?;
    file.write_all(text.as_bytes())
        .with_context(|| format!("write {path}"))
}
