//! The marker in the directory of built trees: their description, and whether they are complete.
//! It prevents that two descriptions are mixed, and lets the trees be checked without further input.
use hakaru_contract::files::TreesConfig;
use serde::{Deserialize, Serialize};

/// Name of the marker.
pub const MARKER_NAME: &str = "hakaru-files.json";
/// Largest size of a marker, bytes; a longer file is none.
pub const MARKER_BYTES_MAX: u64 = 1 << 20;
const FORMAT: u32 = 1;

/// Progress of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BuildState {
    /// Files may be missing or incomplete.
    Building,
    /// Every file was written.
    Complete,
    /// Files are being deleted.
    Removing,
}

/// A marker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Marker {
    format: u32,
    /// Progress.
    pub state: BuildState,
    /// Digest of the description.
    pub digest: String,
    /// Description.
    pub trees: TreesConfig,
}

impl Marker {
    /// Creates a marker.
    #[must_use]
    pub fn new(state: BuildState, digest: String, trees: TreesConfig) -> Marker {
        Marker {
            format: FORMAT,
            state,
            digest,
            trees,
        }
    }

    /// Returns the contents of the marker's file.
    #[must_use]
    pub fn emit(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("a marker is representable in JSON");
        text + "\n"
    }

    /// Parses the contents of the marker's file.
    ///
    /// # Errors
    /// Returns the reason why the bytes are no marker of this format.
    pub fn parse(bytes: &[u8]) -> Result<Marker, String> {
        let marker: Marker = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if marker.format != FORMAT {
            return Err(format!("format {} instead of {FORMAT}", marker.format));
        }
        Ok(marker)
    }
}

#[cfg(test)]
mod tests {
    use hakaru_contract::files::{FileContent, FilePlacement, FileSizes, SizeClass};
    use proptest::prelude::*;

    use super::*;

    fn marker(state: BuildState) -> Marker {
        let sizes = FileSizes::Table {
            classes: vec![SizeClass {
                up_to_bytes: 9,
                count: 1.0,
            }],
        };
        let trees = TreesConfig {
            seed: 1,
            trees: 2,
            depth: 3,
            folders: 4,
            targets: 5,
            dummies: 6,
            placement: FilePlacement::Levels { weights: vec![0.5] },
            sizes: sizes.clone(),
            dummy_sizes: Some(sizes),
            total_bytes: None,
            divide_sizes_by: 7,
            content: FileContent::default(),
        };
        Marker::new(state, "ab".into(), trees)
    }

    #[test]
    fn a_marker_survives_parsing_and_another_format_is_refused() {
        let marker = marker(BuildState::Building);
        assert_eq!(Marker::parse(marker.emit().as_bytes()).unwrap(), marker);
        let other = marker.emit().replace("\"format\": 1", "\"format\": 2");
        assert!(
            Marker::parse(other.as_bytes())
                .unwrap_err()
                .contains("format 2")
        );
    }

    proptest! {
        #[test]
        fn damaged_markers_never_panic(at in 0_usize..500, byte: u8, length in 0_usize..900) {
            let mut bytes = marker(BuildState::Complete).emit().into_bytes();
            let at = at % bytes.len();
            bytes[at] = byte;
            bytes.truncate(length);
            let _ = Marker::parse(&bytes);
        }
    }
}
