//! SEND VOLUME TAG parameter list (SMC-3): a template that barcodes are compared with.
use crate::octets::{put_u16, u16_at};

/// Characters of the template.
const TEMPLATE_BYTES: usize = 32;

/// A template of volume tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeTemplate {
    /// VOLUME IDENTIFICATION TEMPLATE without padding. `?` stands for one character, `*` for any
    /// number of characters.
    pub text: Vec<u8>,
    /// Smallest volume sequence number.
    pub sequence_min: u16,
    /// Largest volume sequence number.
    pub sequence_max: u16,
}

impl VolumeTemplate {
    /// Length of the parameter list, bytes.
    pub const BYTES: usize = 40;

    /// Writes the parameter list. A text longer than 32 bytes is cut.
    pub fn emit(&self) -> [u8; VolumeTemplate::BYTES] {
        let mut out = [0; VolumeTemplate::BYTES];
        out[..TEMPLATE_BYTES].fill(b' ');
        for (to, from) in out[..TEMPLATE_BYTES].iter_mut().zip(&self.text) {
            *to = *from;
        }
        put_u16(&mut out, 34, self.sequence_min);
        put_u16(&mut out, 38, self.sequence_max);
        out
    }

    /// Reads a parameter list. `None` if it has another length.
    pub fn parse(list: &[u8]) -> Option<VolumeTemplate> {
        if list.len() != VolumeTemplate::BYTES {
            return None;
        }
        let text = &list[..TEMPLATE_BYTES];
        let padding = |byte: &&u8| matches!(byte, 0 | b' ');
        let padded = text.iter().rev().take_while(padding).count();
        Some(VolumeTemplate {
            text: text[..text.len() - padded].to_vec(),
            sequence_min: u16_at(list, 34),
            sequence_max: u16_at(list, 38),
        })
    }

    /// Whether a barcode is as the text says.
    pub fn matches(&self, barcode: &[u8]) -> bool {
        let (mut at, mut from) = (0, 0);
        // Place after the last `*`, and the first character that it does not stand for.
        let mut star = None;
        while from < barcode.len() {
            match self.text.get(at) {
                Some(b'*') => {
                    at += 1;
                    star = Some((at, from));
                }
                Some(&wanted) if wanted == b'?' || wanted == barcode[from] => {
                    at += 1;
                    from += 1;
                }
                _ => {
                    let Some((after, end)) = star else {
                        return false;
                    };
                    (at, from) = (after, end + 1);
                    star = Some((after, end + 1));
                }
            }
        }
        self.text[at..].iter().all(|&byte| byte == b'*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn template(text: &str) -> VolumeTemplate {
        VolumeTemplate {
            text: text.as_bytes().to_vec(),
            sequence_min: 0,
            sequence_max: u16::MAX,
        }
    }

    #[test]
    fn question_marks_and_asterisks_stand_for_characters() {
        for (text, matching) in [
            ("HAK001L5", true),
            ("HAK00?L5", true),
            ("HAK*", true),
            ("*L5", true),
            ("*0*L?", true),
            ("*", true),
            ("HAK001L5*", true),
            ("", false),
            ("HAK001L", false),
            ("HAK001L5?", false),
            ("*L6", false),
            ("hak001l5", false),
        ] {
            assert_eq!(template(text).matches(b"HAK001L5"), matching, "{text}");
        }
    }

    #[test]
    fn list_is_laid_out_as_in_smc() {
        let list = template("HAK?").emit();
        assert_eq!((list.len(), &list[..5]), (40, &b"HAK? "[..]));
        assert_eq!(list[32..], [0, 0, 0, 0, 0, 0, 0xff, 0xff]);
        assert_eq!(VolumeTemplate::parse(&list), Some(template("HAK?")));
        assert_eq!(VolumeTemplate::parse(&list[..39]), None);
    }

    /// Whether a barcode is as the text says, by trying every length of each asterisk.
    fn slowly(text: &[u8], barcode: &[u8]) -> bool {
        match text {
            [] => barcode.is_empty(),
            [b'*', rest @ ..] => (0..=barcode.len()).any(|at| slowly(rest, &barcode[at..])),
            [wanted, rest @ ..] => barcode.split_first().is_some_and(|(first, after)| {
                (*wanted == b'?' || wanted == first) && slowly(rest, after)
            }),
        }
    }

    proptest! {
        #[test]
        fn templates_match_like_the_slow_form(text in "[ab?*]{0,6}", barcode in "[ab]{0,6}") {
            let expected = slowly(text.as_bytes(), barcode.as_bytes());
            prop_assert_eq!(template(&text).matches(barcode.as_bytes()), expected);
        }

        #[test]
        fn no_list_panics(list in proptest::collection::vec(any::<u8>(), 0..48)) {
            if let Some(template) = VolumeTemplate::parse(&list) {
                template.matches(b"HAK001L5");
            }
        }
    }
}
