//! WRITE SAME to a volume, in steps that let other accesses proceed.
use hakaru_pool::Request;
use hakaru_scsi_device::{Extent, IoResult};

use super::store::PoolStore;
use super::transfer::{Requester, WriteSame};
use crate::context::StoreContext;

/// Maximum bytes of a WRITE SAME written before other accesses proceed.
const SAME_BYTES: u64 = 1 << 20;

impl PoolStore {
    /// Starts a WRITE SAME of `block`, in steps of at most [`SAME_BYTES`].
    pub(super) fn start_write_same(
        &mut self,
        same: WriteSame,
        block: &[u8],
        context: &mut StoreContext,
    ) {
        let count = SAME_BYTES.min(same.left.length_bytes) / block.len() as u64;
        self.write_same(same, block.repeat(count as usize), context);
    }

    /// Requests the next step of a WRITE SAME; `bytes` contains the blocks of one step.
    pub(super) fn write_same(
        &mut self,
        same: WriteSame,
        bytes: Vec<u8>,
        context: &mut StoreContext,
    ) {
        let WriteSame {
            io,
            volume,
            left,
            fua,
        } = same;
        if left.length_bytes == 0 {
            if fua {
                let requester = Requester::Plain(io, IoResult::Done);
                return self.send_request(requester, Vec::new(), Request::Flush, context);
            }
            return context.done.push_back((io, IoResult::Done));
        }
        let length_bytes = left.length_bytes.min(bytes.len() as u64);
        let request = Request::Write {
            volume,
            offset_bytes: left.offset_bytes,
            length_bytes: length_bytes as u32,
            fua: false,
        };
        let left = Extent {
            offset_bytes: left.offset_bytes + length_bytes,
            length_bytes: left.length_bytes - length_bytes,
        };
        let requester = Requester::WriteSame(WriteSame { left, ..same });
        self.send_request(requester, bytes, request, context);
    }
}
