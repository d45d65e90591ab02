//! Names in UTF-16LE: paths below a share, users, shares.

/// Reason why a path cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// A component has a character that SMB reserves.
    #[error("the path has the character {0:?}, which SMB does not allow in a name")]
    Character(char),
    /// A component is empty, `.` or `..`.
    #[error("the path has a component that is empty, `.` or `..`")]
    Component,
    /// The path is longer than 32767 characters of UTF-16.
    #[error("the path is longer than 32767 UTF-16 units")]
    Long,
}

/// Path of a file below the share, as UTF-16LE with `\` between its components. The empty path is
/// the root of the share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Path(Vec<u8>);

impl Path {
    /// Converts a path with `/` between its components. Slashes at both ends are ignored.
    ///
    /// # Errors
    /// A component is empty, `.` or `..`, or has a character that SMB reserves (MS-FSCC section
    /// 2.1.5.2), or the path is too long.
    pub fn new(path: &str) -> Result<Path, PathError> {
        let path = path.trim_matches('/');
        if path.is_empty() {
            return Ok(Path::default());
        }
        for component in path.split('/') {
            if matches!(component, "" | "." | "..") {
                return Err(PathError::Component);
            }
            let reserved = |c: char| c < ' ' || "\"\\:|<>*?".contains(c);
            if let Some(character) = component.chars().find(|&c| reserved(c)) {
                return Err(PathError::Character(character));
            }
        }
        let bytes = utf16(&path.replace('/', "\\"));
        if bytes.len() > 65_534 {
            return Err(PathError::Long);
        }
        Ok(Path(bytes))
    }

    /// Adopts the bytes of a request. For servers in tests, so nothing is checked.
    #[must_use]
    pub fn from_utf16_bytes(bytes: &[u8]) -> Path {
        Path(bytes.to_vec())
    }

    /// Returns the bytes in UTF-16LE.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Encodes in UTF-16LE.
#[must_use]
pub(crate) fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// Decodes UTF-16LE. Unpaired surrogates become U+FFFD, and an odd last byte is ignored.
#[must_use]
pub(crate) fn from_utf16(bytes: &[u8]) -> String {
    let units = bytes
        .chunks_exact(2)
        .map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    char::decode_utf16(units)
        .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_use_backslashes_without_a_leading_one() {
        let path = Path::new("/a/夏.txt/").unwrap();
        assert_eq!(from_utf16(path.as_bytes()), "a\\夏.txt");
        assert_eq!(Path::new("/").unwrap(), Path::default());
    }

    #[test]
    fn paths_that_smb_cannot_express_are_refused() {
        assert_eq!(Path::new("a/../b"), Err(PathError::Component));
        assert_eq!(Path::new("a//b"), Err(PathError::Component));
        for character in ['\\', '?', '*', ':', '"', '<', '>', '|', '\n'] {
            let path = format!("a/b{character}c");
            assert_eq!(Path::new(&path), Err(PathError::Character(character)));
        }
        assert_eq!(Path::new(&"x".repeat(32_768)), Err(PathError::Long));
        assert!(Path::new(&"x".repeat(32_767)).is_ok());
    }

    #[test]
    fn broken_utf16_is_replaced() {
        assert_eq!(from_utf16(&[0x41, 0, 0x00, 0xd8, 0x42, 0, 7]), "A\u{fffd}B");
    }
}
