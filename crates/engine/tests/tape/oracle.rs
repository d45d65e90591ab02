//! The contents that a tape may have after a kill.

/// An object: the stamp and the length of a block, or a filemark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    Block { stamp: u64, length: u32 },
    Mark,
}

/// A change of the tape.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// Position before it. Everything after it is lost.
    pub at: usize,
    /// The object that was written there, and how often.
    pub written: Option<(Object, usize)>,
}

/// The tape when it was last synchronised, and the changes since.
#[derive(Debug, Default)]
pub struct Oracle {
    synchronised: Vec<Object>,
    changes: Vec<Change>,
}

impl Oracle {
    /// Notes a change before it is requested.
    pub fn change(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// Takes back the last change, which was refused. Everything after its position is lost.
    pub fn refuse(&mut self) {
        if let Some(last) = self.changes.last_mut() {
            last.written = None;
        }
    }

    /// Notes that every change is on the tape.
    pub fn synchronised(&mut self) {
        for change in self.changes.drain(..) {
            apply(&mut self.synchronised, change);
        }
    }

    /// Compares the tape after a kill, which from now on must stay as it is.
    pub fn compare(&mut self, found: Vec<Object>) {
        let mut state = self.synchronised.clone();
        let mut floor = state.len();
        let mut allowed = found == state;
        for change in self.changes.drain(..) {
            apply(&mut state, change);
            floor = floor.min(change.at);
            allowed |= found.len() >= floor && state.starts_with(&found);
        }
        assert!(
            allowed,
            "{} objects were found, {} were synchronised, of which {floor} stand",
            found.len(),
            self.synchronised.len(),
        );
        self.synchronised = found;
    }
}

fn apply(state: &mut Vec<Object>, change: Change) {
    state.truncate(change.at);
    if let Some((object, count)) = change.written {
        state.extend(std::iter::repeat_n(object, count));
    }
}

/// Returns the bytes of a block.
pub fn block(stamp: u64, length: u32) -> Vec<u8> {
    let words = (0_u64..).flat_map(|word| (stamp ^ word << 40).to_le_bytes());
    words.take(length as usize).collect()
}

/// Returns the object that was read. Panics if a byte is wrong.
pub fn object_of(read: Option<Vec<u8>>) -> Object {
    let Some(bytes) = read else {
        return Object::Mark;
    };
    let length = bytes.len() as u32;
    let first = bytes
        .first_chunk::<8>()
        .expect("blocks have 8 bytes or more");
    let stamp = u64::from_le_bytes(*first);
    assert!(bytes == block(stamp, length), "a block has wrong bytes");
    Object::Block { stamp, length }
}
