//! Formats of MS-SMB2: header, messages, names, status codes.
//!
//! Each message that a server may receive has `emit` and `parse`, and so does each response, so
//! that tests have a server. `emit` appends the body behind a header of 64 bytes. `parse` takes a
//! message with its header, because offsets count from it. `parse_*` never panic, for any input.

mod create;
mod fields;
mod header;
mod info;
mod io;
mod name;
mod negotiate;
mod session;
mod status;

pub use create::{
    ATTRIBUTE_DIRECTORY, Access, CreateRequest, CreateResponse, Disposition, FileFacts, FileId,
    OPTION_DELETE_ON_CLOSE, OPTION_DIRECTORY, OPTION_FILE, Sharing,
};
pub use fields::WireError;
pub(crate) use fields::{Emit, Fields};
pub use header::{
    Command, FLAG_ASYNC, FLAG_RELATED, FLAG_RESPONSE, FLAG_SIGNED, HEADER_LENGTH, Header,
    SIGNATURE_AT, UNSOLICITED, split_compound,
};
pub use info::{
    Change, DirectoryEntry, Query, QueryDirectoryRequest, Space, emit_buffer_response,
    emit_entries, emit_facts, emit_query_info, emit_set_info, emit_set_info_response,
    parse_buffer_response, parse_entries, parse_facts, parse_query_info, parse_set_info,
    parse_space,
};
pub use io::{
    READ_HEAD_LENGTH, ReadRequest, WriteRequest, emit_close, emit_close_response, emit_flush,
    emit_read_response, emit_write_response, parse_close_response, parse_file, parse_read_response,
    parse_write_response,
};
#[cfg(test)]
pub(crate) use name::from_utf16;
pub(crate) use name::utf16;
pub use name::{Path, PathError};
pub use negotiate::{
    CAPABILITY_ENCRYPTION, CAPABILITY_LARGE_MTU, Dialect, EncryptionCipher, NegotiateRequest,
    NegotiateResponse, SIGNING_ENABLED, SIGNING_REQUIRED, SigningAlgorithm,
};
pub use session::{
    SESSION_ANONYMOUS, SESSION_ENCRYPT, SESSION_GUEST, SHARE_ENCRYPT, SHARE_TYPE_DISK,
    SessionSetupRequest, SessionSetupResponse, TreeConnectRequest, TreeConnectResponse, emit_empty,
    emit_error,
};
pub use status::Status;
