//! Operation codes (RFC 7143 section 11.2.1.2). Initiator opcodes are below 20h, target opcodes
//! from 20h on.

macro_rules! opcodes {
    ($($(#[$doc:meta])* $name:ident = $code:literal,)*) => {
        /// Operation code of a PDU.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Opcode { $($(#[$doc])* $name = $code,)* }

        impl Opcode {
            /// Every opcode that this crate knows.
            pub const ALL: &[Opcode] = &[$(Opcode::$name,)*];

            /// Returns the opcode of a 6-bit code. `None` for reserved and vendor-specific ones.
            pub const fn from_code(code: u8) -> Option<Opcode> {
                match code { $($code => Some(Opcode::$name),)* _ => None }
            }
        }
    };
}

opcodes! {
    /// NOP-Out, section 11.18.
    NopOut = 0x00,
    /// SCSI Command, section 11.3.
    ScsiCommand = 0x01,
    /// Task Management Function Request, section 11.5.
    TaskManagementRequest = 0x02,
    /// Login Request, section 11.12.
    LoginRequest = 0x03,
    /// Text Request, section 11.10.
    TextRequest = 0x04,
    /// SCSI Data-Out, section 11.7.
    DataOut = 0x05,
    /// Logout Request, section 11.14.
    LogoutRequest = 0x06,
    /// SNACK Request, section 11.16.
    Snack = 0x10,
    /// NOP-In, section 11.19.
    NopIn = 0x20,
    /// SCSI Response, section 11.4.
    ScsiResponse = 0x21,
    /// Task Management Function Response, section 11.6.
    TaskManagementResponse = 0x22,
    /// Login Response, section 11.13.
    LoginResponse = 0x23,
    /// Text Response, section 11.11.
    TextResponse = 0x24,
    /// SCSI Data-In, section 11.7.
    DataIn = 0x25,
    /// Logout Response, section 11.15.
    LogoutResponse = 0x26,
    /// Ready To Transfer, section 11.8.
    R2t = 0x31,
    /// Asynchronous Message, section 11.9.
    AsyncMessage = 0x32,
    /// Reject, section 11.17.
    Reject = 0x3f,
}

impl Opcode {
    /// Returns the 6-bit code.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Returns whether initiators send this opcode.
    pub const fn from_initiator(self) -> bool {
        self.code() < 0x20
    }
}
