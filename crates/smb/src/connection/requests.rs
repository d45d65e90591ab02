//! Bodies and costs of the requests of operations.
use super::login::SessionFacts;
use crate::op::Op;
use crate::wire::{
    QueryDirectoryRequest, ReadRequest, WriteRequest, emit_close, emit_empty, emit_flush,
    emit_query_info, emit_set_info,
};

/// Number of bytes that one credit covers.
const CREDIT_BYTES: usize = 64 << 10;

/// Returns the number of credits that an operation costs (MS-SMB2 section 3.2.4.1.5).
pub(super) fn charge(op: &Op, facts: &SessionFacts) -> u16 {
    let bytes = match op {
        Op::Read { length, .. } => *length as usize,
        Op::Write { data, .. } => data.range.len(),
        Op::List { .. } => facts.list_bytes_max as usize,
        _ => 0,
    };
    // At most 128, because no request has more than 8 MiB.
    bytes.div_ceil(CREDIT_BYTES).clamp(1, 128) as u16
}

/// Appends the body of an operation's request, without the data of a write.
pub(super) fn emit_op(op: &Op, facts: &SessionFacts, out: &mut Vec<u8>) {
    match op {
        Op::Create(request) => request.emit(out),
        Op::Close { file } => emit_close(*file, out),
        &Op::Read {
            file,
            offset,
            length,
            ..
        } => ReadRequest {
            file,
            offset,
            length,
        }
        .emit(out),
        Op::Write { file, offset, data } => WriteRequest {
            file: *file,
            offset: *offset,
            length: data.range.len() as u32,
        }
        .emit(out),
        Op::Flush { file } => emit_flush(*file, out),
        Op::List {
            file,
            pattern,
            restart,
        } => QueryDirectoryRequest {
            file: *file,
            pattern: pattern.clone(),
            restart: *restart,
            length_max: facts.list_bytes_max,
        }
        .emit(out),
        Op::Query { file, query } => emit_query_info(*file, *query, out),
        Op::Set { file, change } => emit_set_info(*file, change, out),
        Op::Echo => emit_empty(out),
    }
}
