//! The pieces of an access. Most accesses have one piece, so up to two are stored inline.

use crate::place::Place;
use crate::volume::Volume;

/// A part of an access, in the order of the access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Data in a group's file.
    Data {
        /// Location.
        place: Place,
        /// Length, bytes, at least 1.
        length_bytes: u32,
    },
    /// An unmapped range, which reads as zeros. Only in reads.
    Zeros {
        /// Length, bytes, at least 1.
        length_bytes: u32,
    },
}

impl Piece {
    /// Returns the length of the piece, bytes.
    #[must_use]
    pub const fn length_bytes(&self) -> u32 {
        match *self {
            Piece::Data { length_bytes, .. } | Piece::Zeros { length_bytes } => length_bytes,
        }
    }
}

const INLINE: usize = 2;
const NOTHING: Piece = Piece::Zeros { length_bytes: 0 };

/// The pieces of an access. Their lengths add up to the length of the access. Adjacent pieces that
/// are contiguous in the file are merged.
#[derive(Clone, Debug)]
pub struct Pieces {
    first: [Piece; INLINE],
    first_len: u8,
    /// All pieces, if there are more than [`INLINE`].
    all: Vec<Piece>,
}

impl Default for Pieces {
    fn default() -> Self {
        Pieces {
            first: [NOTHING; INLINE],
            first_len: 0,
            all: Vec::new(),
        }
    }
}

impl Pieces {
    /// Returns the pieces in order.
    #[must_use]
    pub fn as_slice(&self) -> &[Piece] {
        if self.all.is_empty() {
            &self.first[..usize::from(self.first_len)]
        } else {
            &self.all
        }
    }

    pub(crate) fn push(&mut self, piece: Piece) {
        let slice = if self.all.is_empty() {
            &mut self.first[..usize::from(self.first_len)]
        } else {
            &mut self.all[..]
        };
        if let Some(last) = slice.last_mut()
            && extend(last, &piece)
        {
            return;
        }
        if !self.all.is_empty() {
            self.all.push(piece);
        } else if usize::from(self.first_len) < INLINE {
            self.first[usize::from(self.first_len)] = piece;
            self.first_len += 1;
        } else {
            self.all.extend_from_slice(&self.first);
            self.all.push(piece);
        }
    }
}

impl<'a> IntoIterator for &'a Pieces {
    type Item = &'a Piece;
    type IntoIter = core::slice::Iter<'a, Piece>;
    fn into_iter(self) -> Self::IntoIter {
        self.as_slice().iter()
    }
}

/// Extends `last` by `next` if they are contiguous. Returns whether they are.
fn extend(last: &mut Piece, next: &Piece) -> bool {
    match (last, *next) {
        (Piece::Zeros { length_bytes }, Piece::Zeros { length_bytes: more }) => {
            *length_bytes += more;
            true
        }
        (
            Piece::Data {
                place,
                length_bytes,
            },
            Piece::Data {
                place: place_next,
                length_bytes: more,
            },
        ) if place.group == place_next.group
            && place.offset_bytes + u64::from(*length_bytes) == place_next.offset_bytes =>
        {
            *length_bytes += more;
            true
        }
        _ => false,
    }
}

/// Returns the pieces of a range of a volume.
pub(crate) fn pieces(
    volume: &Volume,
    page_bytes: u32,
    offset_bytes: u64,
    length_bytes: u32,
) -> Pieces {
    let mut pieces = Pieces::default();
    let shift = page_bytes.trailing_zeros();
    let (mut at, mut left) = (offset_bytes, length_bytes);
    while left > 0 {
        let within = (at & u64::from(page_bytes - 1)) as u32;
        let length_bytes = left.min(page_bytes - within);
        pieces.push(match volume.map.get(at >> shift) {
            Some(page) => {
                let mut place = Place::of_page(page.group, page.page, page_bytes);
                place.offset_bytes += u64::from(within);
                Piece::Data {
                    place,
                    length_bytes,
                }
            }
            None => Piece::Zeros { length_bytes },
        });
        at += u64::from(length_bytes);
        left -= length_bytes;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::GroupId;

    fn data(group: u16, offset_bytes: u64, length_bytes: u32) -> Piece {
        Piece::Data {
            place: Place {
                group: GroupId(group),
                offset_bytes,
            },
            length_bytes,
        }
    }

    #[test]
    fn contiguous_pieces_are_merged() {
        let mut pieces = Pieces::default();
        pieces.push(data(0, 100, 50));
        pieces.push(data(0, 150, 10));
        pieces.push(Piece::Zeros { length_bytes: 1 });
        pieces.push(Piece::Zeros { length_bytes: 2 });
        pieces.push(data(1, 163, 1));
        pieces.push(data(1, 164, 1));
        assert_eq!(
            pieces.as_slice(),
            [
                data(0, 100, 60),
                Piece::Zeros { length_bytes: 3 },
                data(1, 163, 2)
            ]
        );
    }
}
