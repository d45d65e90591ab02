//! SCSI: command descriptor blocks, sense data, INQUIRY and mode pages (SAM-5, SPC-4, SBC-3).
