//! Checked settings of sessions with one share.
use std::net::SocketAddr;
use std::time::Duration;

use hakaru_contract::smb::{
    SmbCipher, SmbCompound, SmbDestination, SmbDialect, SmbEncryption, SmbSigning,
    SmbSigningAlgorithm, SmbUser,
};
use hakaru_runtime::process::entropy;
use hakaru_smb::wire::{Dialect, EncryptionCipher, Path, SigningAlgorithm};
use hakaru_smb::{Config, Credentials, Encryption, Entropy, Password, Signing};

use crate::address::parse_address;
use crate::failure::Failure;
use crate::secret;

/// Bytes that one credit covers (MS-SMB2 section 3.1.5.2).
const CREDIT_BYTES: u32 = 64 << 10;
/// Limits of the client for one request, bytes.
const IO_BYTES: std::ops::RangeInclusive<u32> = 4096..=8 << 20;
/// Requests of the longest compound of an operation: open, rename, close. Each takes a credit.
const OPERATION_REQUESTS: u16 = 3;
/// Requests of the compound of a file beside its transfer: open, flush, close.
const FILE_REQUESTS: u16 = 3;
const SHARE_NAME_MAX: usize = 80;
/// Limit of the folder, UTF-16 units. The protocol's 32767 for a path leave room for the names of a
/// tree below it: one of at most 8 units for each level and file.
const FOLDER_UNITS_MAX: usize = 16_384;

/// Settings of all sessions of an engine.
pub struct Settings {
    pub address: SocketAddr,
    pub config: Config,
    /// Folder of the trees below the share; empty: the share itself.
    pub folder: String,
    /// Requests that are one compound.
    pub compound: SmbCompound,
    /// Whether a tool looks each folder of a tree up once.
    pub folder_cache: bool,
    /// Time limit of a connection with its login.
    pub connect_timeout: Duration,
    share: String,
}

impl Settings {
    /// Checks the settings. A request has at most `block_bytes`.
    ///
    /// # Errors
    /// A field is invalid, or the file of the password cannot be read.
    pub fn new(smb: &SmbDestination, block_bytes: u32) -> Result<Settings, Failure> {
        let address = parse_address("destination.address", &smb.address)?;
        let share = &smb.share;
        if share.is_empty() || share.len() > SHARE_NAME_MAX || share.contains(['/', '\\', '\0']) {
            return Err(refuse("share", share, "name a share, such as `data`"));
        }
        let folder = smb.folder.trim_matches('/');
        let units = folder.encode_utf16().count();
        if units > FOLDER_UNITS_MAX {
            return Err(Failure::usage(
                format_args!("destination.folder has {units} UTF-16 units"),
                format_args!("use a folder with at most {FOLDER_UNITS_MAX}"),
            ));
        }
        Path::new(folder).map_err(|error| refuse("folder", &smb.folder, error))?;
        if smb.dialects.is_empty() {
            return Err(refuse("dialects", "", "omit it to offer all dialects"));
        }
        let (credits_min, beside) = match smb.compound {
            SmbCompound::None => (1, 0),
            SmbCompound::Operation => (OPERATION_REQUESTS, 0),
            SmbCompound::File => (FILE_REQUESTS + 1, FILE_REQUESTS),
        };
        if !(credits_min..=8192).contains(&smb.credits) {
            let hint = format!("use {credits_min} to 8192");
            return Err(refuse("credits", smb.credits, hint));
        }
        let time = |field, seconds: f64| match (0.1..=600.0).contains(&seconds) {
            true => Ok(Duration::from_secs_f64(seconds)),
            false => Err(refuse(field, seconds, "use 0.1 to 600")),
        };
        let connect_timeout = time("connect_timeout_s", smb.connect_timeout_s)?;
        let server = address.ip().to_string();
        let mut config = Config::new(&server, share, credentials(&smb.user)?);
        config.dialects = smb.dialects.iter().copied().map(dialect).collect();
        config.signing = match smb.signing {
            SmbSigning::IfRequired => Signing::IfRequired,
            SmbSigning::Required => Signing::Required,
        };
        let algorithms = smb.signing_algorithms.iter();
        config.signing_algorithms = algorithms.copied().map(algorithm).collect();
        config.encryption = match smb.encryption {
            SmbEncryption::IfRequired => Encryption::IfRequired,
            SmbEncryption::Required => Encryption::Required,
        };
        config.ciphers = smb.ciphers.iter().copied().map(cipher).collect();
        config.credits = smb.credits;
        config.io_bytes_max = block_bytes
            .min(u32::from(smb.credits - beside) * CREDIT_BYTES)
            .clamp(*IO_BYTES.start(), *IO_BYTES.end());
        config.timeout = time("request_timeout_s", smb.request_timeout_s)?;
        Ok(Settings {
            address,
            config,
            folder: folder.to_owned(),
            compound: smb.compound,
            folder_cache: smb.folder_cache,
            connect_timeout,
            share: share.clone(),
        })
    }

    /// Returns the number of requests of this size that the credits cover.
    pub fn transfers(&self, bytes: u32) -> u32 {
        u32::from(self.config.credits) / bytes.div_ceil(CREDIT_BYTES).max(1)
    }

    /// Returns random values of a new session.
    ///
    /// Each session is that of a client of its own: a server with multichannel, such as Samba,
    /// passes all connections with one client GUID to one process.
    pub fn entropy() -> Entropy {
        let (mut client_guid, mut salt, mut client_challenge) = ([0; 16], [0; 32], [0; 8]);
        entropy::fill(&mut client_guid);
        entropy::fill(&mut salt);
        entropy::fill(&mut client_challenge);
        Entropy {
            client_guid,
            salt,
            client_challenge,
            // Every server since SMB 2 sends its own time.
            wall_clock: 0,
        }
    }

    /// Returns the path of a file below the share.
    pub fn path(&self, below: &str) -> Path {
        let path = match (self.folder.as_str(), below) {
            ("", below) => below.to_owned(),
            (folder, "") => folder.to_owned(),
            (folder, below) => format!("{folder}/{below}"),
        };
        // The folder was checked, and names of trees are short and have letters and digits.
        Path::new(&path).expect("checked names")
    }

    /// Returns the place of a path in messages.
    pub fn locate(&self, path: &str) -> String {
        let Settings { address, share, .. } = self;
        let mut place = format!("smb://{address}/{share}");
        for part in [self.folder.as_str(), path] {
            if !part.is_empty() {
                place.push('/');
                place.push_str(part);
            }
        }
        place
    }
}

fn cipher(cipher: SmbCipher) -> EncryptionCipher {
    match cipher {
        SmbCipher::Aes128Gcm => EncryptionCipher::Aes128Gcm,
        SmbCipher::Aes128Ccm => EncryptionCipher::Aes128Ccm,
    }
}

fn refuse(field: &str, value: impl std::fmt::Display, hint: impl std::fmt::Display) -> Failure {
    Failure::usage(
        format_args!(
            "destination.{field} is {value:?}",
            value = value.to_string()
        ),
        hint,
    )
}

fn credentials(user: &SmbUser) -> Result<Credentials, Failure> {
    Ok(match user {
        SmbUser::Guest => Credentials::Guest,
        SmbUser::Anonymous => Credentials::Anonymous,
        SmbUser::Password {
            name,
            domain,
            password,
        } => Credentials::Password(Password {
            domain: domain.clone(),
            user: name.clone(),
            password: secret::text("destination.user.password", password)?,
        }),
    })
}

fn dialect(configured: SmbDialect) -> Dialect {
    match configured {
        SmbDialect::V2_1 => Dialect::Smb21,
        SmbDialect::V3_0 => Dialect::Smb30,
        SmbDialect::V3_0_2 => Dialect::Smb302,
        SmbDialect::V3_1_1 => Dialect::Smb311,
    }
}

fn algorithm(configured: SmbSigningAlgorithm) -> SigningAlgorithm {
    match configured {
        SmbSigningAlgorithm::AesGmac => SigningAlgorithm::AesGmac,
        SmbSigningAlgorithm::AesCmac => SigningAlgorithm::AesCmac,
    }
}
