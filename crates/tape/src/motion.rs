//! Requests that move the tape: REWIND, SPACE, LOCATE.

use crate::condition::Condition;
use crate::drive::Drive;
use crate::medium::Object;

impl Drive {
    /// Executes REWIND.
    ///
    /// # Errors
    /// [`Condition::NoMedium`].
    pub fn rewind(&mut self) -> Result<(), Condition> {
        self.loaded()?;
        self.position = 0;
        Ok(())
    }

    /// Executes SPACE over blocks, backward if `count` is negative.
    ///
    /// # Errors
    /// [`Condition::NoMedium`], or the filemark or end at which it has stopped: after a filemark
    /// forward, before it backward.
    pub fn space_blocks(&mut self, count: i64) -> Result<(), Condition> {
        let medium = &self.loaded()?.medium;
        let (mut position, mut undone) = (self.position, count.unsigned_abs());
        let forward = count > 0;
        while undone > 0 {
            let (passed, stop) = if forward {
                match medium.after(position) {
                    Object::Blocks { count, .. } => (count.min(undone), None),
                    Object::Filemarks { .. } => (1, Some(Condition::Filemark { undone })),
                    Object::EndOfData => {
                        let undone = Some(undone);
                        (0, Some(Condition::EndOfData { undone }))
                    }
                }
            } else {
                match medium.before(position) {
                    Some((count, false)) => (count.min(undone), None),
                    Some((_, true)) => (1, Some(Condition::Filemark { undone })),
                    None => (0, Some(Condition::Beginning { undone })),
                }
            };
            position = if forward {
                position + passed
            } else {
                position - passed
            };
            if let Some(stop) = stop {
                self.position = position;
                return Err(stop);
            }
            undone -= passed;
        }
        self.position = position;
        Ok(())
    }

    /// Executes SPACE over filemarks, backward if `count` is negative: the position is after the
    /// last one forward, before it backward.
    ///
    /// # Errors
    /// [`Condition::NoMedium`], or the end at which it has stopped.
    pub fn space_filemarks(&mut self, count: i64) -> Result<(), Condition> {
        let medium = &self.loaded()?.medium;
        let before = medium.marks_before(self.position);
        let wanted = count.unsigned_abs();
        let (position, stop) = if count > 0 {
            let found = before
                .checked_add(wanted - 1)
                .and_then(|mark| medium.mark(mark));
            match found {
                Some(position) => (position + 1, None),
                None => {
                    let undone = Some(wanted - (medium.filemarks() - before));
                    (medium.end(), Some(Condition::EndOfData { undone }))
                }
            }
        } else if count == 0 {
            (self.position, None)
        } else {
            match before
                .checked_sub(wanted)
                .and_then(|mark| medium.mark(mark))
            {
                Some(position) => (position, None),
                None => {
                    let undone = wanted - before;
                    (0, Some(Condition::Beginning { undone }))
                }
            }
        };
        self.position = position;
        stop.map_or(Ok(()), Err)
    }

    /// Executes SPACE to the end of data.
    ///
    /// # Errors
    /// [`Condition::NoMedium`].
    pub fn space_to_end(&mut self) -> Result<(), Condition> {
        self.position = self.loaded()?.medium.end();
        Ok(())
    }

    /// Executes LOCATE of an object.
    ///
    /// # Errors
    /// [`Condition::NoMedium`]; [`Condition::EndOfData`] if there is no such object, with the
    /// position at the end of data.
    pub fn locate(&mut self, object: u64) -> Result<(), Condition> {
        let end = self.loaded()?.medium.end();
        self.position = object.min(end);
        if object > end {
            return Err(Condition::EndOfData { undone: None });
        }
        Ok(())
    }

    /// Executes LOCATE of a file: the position is after `file` filemarks.
    ///
    /// # Errors
    /// As [`Self::locate`].
    pub fn locate_file(&mut self, file: u64) -> Result<(), Condition> {
        let medium = &self.loaded()?.medium;
        let mark = file.checked_sub(1).map(|mark| medium.mark(mark));
        let (position, found) = match mark {
            None => (0, true),
            Some(Some(position)) => (position + 1, true),
            Some(None) => (medium.end(), false),
        };
        self.position = position;
        if found {
            return Ok(());
        }
        Err(Condition::EndOfData { undone: None })
    }
}
