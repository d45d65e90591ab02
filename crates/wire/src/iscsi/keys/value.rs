//! Values of keys, in memory and on the wire.

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// Returns the RFC's word.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// Returns the value of a word of the RFC.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($word => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

words! {
    /// HeaderDigest, DataDigest (section 13.1).
    Digest {
        /// None.
        #[default]
        None = "None",
        /// CRC32C.
        Crc32c = "CRC32C",
    }
}

words! {
    /// SessionType (section 13.21).
    SessionType {
        /// All commands.
        #[default]
        Normal = "Normal",
        /// SendTargets and logout only.
        Discovery = "Discovery",
    }
}

words! {
    /// TaskReporting (section 13.23).
    TaskReporting {
        /// Semantics of RFC 3720.
        #[default]
        Rfc3720 = "RFC3720",
        /// Responses that fence later ones.
        ResponseFence = "ResponseFence",
        /// Fast multi-task abort.
        FastAbort = "FastAbort",
    }
}

words! {
    /// AuthMethod (section 12.1).
    AuthMethod {
        /// No authentication.
        #[default]
        None = "None",
        /// Challenge-handshake.
        Chap = "CHAP",
        /// Secure remote password.
        Srp = "SRP",
        /// Kerberos V5.
        Krb5 = "KRB5",
    }
}

/// Parses a decimal constant without leading zeros or a hexadecimal one with `0x` (section 6.1),
/// below 2^64.
pub fn parse_number(text: &str) -> Option<u64> {
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return parse_digits(digits, 16);
    }
    if text.len() > 1 && text.starts_with('0') {
        return None;
    }
    parse_digits(text, 10)
}

/// Parses digits only, because `from_str_radix` would accept a sign.
fn parse_digits(digits: &str, radix: u32) -> Option<u64> {
    let only_digits = digits.chars().all(|c| c.is_digit(radix));
    if only_digits {
        u64::from_str_radix(digits, radix).ok()
    } else {
        None
    }
}

/// Parses `Yes` or `No`.
pub(super) fn parse_boolean(text: &str) -> Option<bool> {
    match text {
        "Yes" => Some(true),
        "No" => Some(false),
        _ => None,
    }
}

pub(super) fn boolean_name(value: bool) -> &'static str {
    if value { "Yes" } else { "No" }
}

/// Returns whether `name` is an iSCSI name (section 4.2.7): `iqn.`, `eui.` or `naa.`, at most 223
/// bytes, without space, comma or control characters.
///
/// This is less strict than RFC 3722, which normalises names before comparison: names with capitals
/// are in use and are accepted unchanged.
pub fn is_iscsi_name(name: &str) -> bool {
    let kind = ["iqn.", "eui.", "naa."]
        .iter()
        .any(|kind| name.len() > kind.len() && name.starts_with(kind));
    kind && name.len() <= 223
        && !name
            .chars()
            .any(|c| c.is_whitespace() || c.is_control() || c == ',')
}
