//! TapeAlert flags of a drive (SSC-3 section 4.2.17 and annex A).

/// An event that sets a flag, whose number is its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Alert {
    /// A block could not be read or written.
    HardError = 0x03,
    /// A block could not be read.
    ReadFailure = 0x05,
    /// A block, or the index of the cartridge, could not be written.
    WriteFailure = 0x06,
    /// A write to a write-protected cartridge was attempted.
    WriteProtect = 0x09,
    /// An unload was attempted while the removal of the cartridge is prevented.
    NoRemoval = 0x0a,
    /// A cartridge was loaded that the drive does not read.
    UnsupportedFormat = 0x0c,
    /// A cartridge was loaded that the drive only reads.
    ReadOnlyFormat = 0x11,
}

impl Alert {
    /// All events, ascending by flag.
    pub const ALL: [Alert; 7] = [
        Alert::HardError,
        Alert::ReadFailure,
        Alert::WriteFailure,
        Alert::WriteProtect,
        Alert::NoRemoval,
        Alert::UnsupportedFormat,
        Alert::ReadOnlyFormat,
    ];

    /// Returns the flag in a set of flags, whose most significant bit is flag 1.
    #[must_use]
    pub const fn flag(self) -> u64 {
        1 << (64 - self as u64)
    }
}

/// The flags of a drive. They belong to the cartridge in it, and end with its removal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alerts {
    /// Number of events so far.
    events: u64,
    /// Number of the last event of each kind, from 1; 0 if its flag is not set.
    last: [u64; Alert::ALL.len()],
    /// Flags at the last report.
    reported: u64,
}

impl Alerts {
    /// Sets the flag of an event.
    pub fn raise(&mut self, alert: Alert) {
        self.events += 1;
        let kinds = Alert::ALL.iter().zip(&mut self.last);
        for (_, last) in kinds.filter(|(kind, _)| **kind == alert) {
            *last = self.events;
        }
    }

    /// Clears all flags.
    pub(crate) fn clear(&mut self) {
        self.last = Default::default();
    }

    /// Returns the number of events so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns the flags that are set because of an event after the first `events`. The most
    /// significant bit is flag 1.
    #[must_use]
    pub fn after(&self, events: u64) -> u64 {
        let kinds = Alert::ALL.iter().zip(self.last);
        kinds
            .filter(|(_, last)| *last > events)
            .fold(0, |flags, (kind, _)| flags | kind.flag())
    }

    /// Returns all flags, and remembers that they were reported.
    pub fn report(&mut self) -> u64 {
        self.reported = self.after(0);
        self.reported
    }

    /// Whether the flags have changed since the last report.
    #[must_use]
    pub fn have_changed(&self) -> bool {
        self.reported != self.after(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_numbered_from_the_most_significant_bit() {
        let mut alerts = Alerts::default();
        assert_eq!((alerts.after(0), alerts.have_changed()), (0, false));
        alerts.raise(Alert::HardError);
        alerts.raise(Alert::WriteProtect);
        let bytes = [0x20, 0x80, 0, 0, 0, 0, 0, 0];
        assert!(alerts.have_changed());
        assert_eq!(alerts.report().to_be_bytes(), bytes);
        assert!(!alerts.have_changed());
        // The first event is known to the reader.
        assert_eq!(alerts.after(1), Alert::WriteProtect.flag());
        assert_eq!(alerts.after(alerts.events()), 0);
        // The event happens again.
        let read = alerts.events();
        alerts.raise(Alert::HardError);
        assert_eq!(alerts.after(read), Alert::HardError.flag());
        alerts.clear();
        assert_eq!((alerts.after(0), alerts.have_changed()), (0, true));
    }
}
