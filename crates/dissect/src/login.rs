//! The result of a login: names and negotiated keys.
//!
//! The texts of both sides are combined by each key's rule. Authentication values are not stored.
use std::collections::BTreeMap;

use hakaru_wire::iscsi::keys::{Key, Kind, parse_number};
use hakaru_wire::iscsi::text::{TextBuffer, parse_pairs};

use crate::Sender;

/// The texts of one login, as far as they were captured.
#[derive(Debug, Default)]
pub(crate) struct Login {
    texts: [TextBuffer; 2],
    /// Whether a part of a text was cut off or malformed, so that keys may be missing.
    incomplete: bool,
    declared: BTreeMap<Key, [Option<String>; 2]>,
}

/// Use of header and data digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digests {
    pub(crate) header: bool,
    pub(crate) data: bool,
}

impl Login {
    /// Handles the beginning of a login PDU.
    pub(crate) fn begin_pdu(&mut self, sender: Sender) {
        self.incomplete |= self.texts[sender as usize].begin_pdu().is_err();
    }

    /// Handles a part of the PDU's text.
    pub(crate) fn text(&mut self, sender: Sender, bytes: &[u8]) {
        self.incomplete |= self.texts[sender as usize].extend(bytes).is_err();
    }

    /// Handles text that is not in the capture.
    pub(crate) fn text_missing(&mut self) {
        self.incomplete = true;
    }

    /// Handles the end of a complete text.
    pub(crate) fn end_text(&mut self, sender: Sender) {
        let text = self.texts[sender as usize].take();
        for pair in parse_pairs(&text) {
            let Ok((name, value)) = pair else {
                self.incomplete = true;
                return;
            };
            let operational_key =
                Key::from_name(name).filter(|key| key.rule().kind != Kind::Authentication);
            if let Some(key) = operational_key
                && !matches!(value, "Reject" | "Irrelevant" | "NotUnderstood")
            {
                self.declared.entry(key).or_default()[sender as usize] = Some(value.to_owned());
            }
        }
    }

    /// Returns whether all keys of the login are known.
    pub(crate) fn is_complete(&self) -> bool {
        !self.incomplete
    }

    /// Returns the value that a side declared.
    pub(crate) fn declared_value(&self, key: Key, sender: Sender) -> Option<&str> {
        self.declared.get(&key)?[sender as usize].as_deref()
    }

    /// Returns the negotiated digests; `None` if a part of the login is missing.
    pub(crate) fn digests(&self) -> Option<Digests> {
        let uses_crc32c = |key| self.negotiated_value(key).as_deref() == Some("CRC32C");
        self.is_complete().then(|| Digests {
            header: uses_crc32c(Key::HeaderDigest),
            data: uses_crc32c(Key::DataDigest),
        })
    }

    /// Returns the negotiated number of a key.
    pub(crate) fn number(&self, key: Key) -> Option<u32> {
        u32::try_from(parse_number(&self.negotiated_value(key)?)?).ok()
    }

    /// Returns the number that a side declared for itself.
    pub(crate) fn declared_number(&self, key: Key, sender: Sender) -> Option<u32> {
        u32::try_from(parse_number(self.declared_value(key, sender)?)?).ok()
    }

    /// Returns the negotiated value of a key. If a side did not declare it, returns `None`, and the
    /// key's default applies.
    fn negotiated_value(&self, key: Key) -> Option<String> {
        let [initiator, target] = self.declared.get(&key)?;
        let (Some(a), Some(b)) = (initiator, target) else {
            // An offer without an answer is not agreed on.
            return None;
        };
        let numbers = parse_number(a).zip(parse_number(b));
        match key.rule().kind {
            Kind::Minimum { .. } => numbers.map(|(a, b)| a.min(b).to_string()),
            Kind::Maximum { .. } => numbers.map(|(a, b)| a.max(b).to_string()),
            Kind::And => Some(yes_or_no(a == "Yes" && b == "Yes")),
            Kind::Or => Some(yes_or_no(a == "Yes" || b == "Yes")),
            // The answer to a list is one of its values.
            Kind::List if a.contains(',') => Some(b.clone()),
            Kind::List if b.contains(',') || a == b => Some(a.clone()),
            _ => None,
        }
    }

    /// Returns every negotiated operational key. For a value that each side declares for itself,
    /// the side follows the key's name.
    pub(crate) fn negotiated(&self) -> BTreeMap<String, String> {
        let mut negotiated = BTreeMap::new();
        for (&key, values) in &self.declared {
            match key.rule().kind {
                Kind::Number { .. } => {
                    for (side, value) in ["initiator", "target"].iter().zip(values) {
                        if let Some(value) = value {
                            negotiated.insert(format!("{} ({side})", key.name()), value.clone());
                        }
                    }
                }
                Kind::Text | Kind::Query | Kind::Authentication | Kind::Obsolete => {}
                _ => {
                    if let Some(value) = self.negotiated_value(key) {
                        negotiated.insert(key.name().to_owned(), value);
                    }
                }
            }
        }
        negotiated
    }
}

fn yes_or_no(value: bool) -> String {
    if value { "Yes" } else { "No" }.to_owned()
}
