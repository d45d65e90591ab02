//! Requests of the vhost-user protocol, by which QEMU passes the guest's features, memory and rings.
use std::fs::File;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig,
    VhostUserSharedMsg, VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};
use vm_memory::GuestAddress;

use super::super::memory::Memory;
use super::{Device, EVENT_IDX, FROM_GUEST, Kick, OFFERED, PAIRS_MAX, Queue};
use crate::wait::Interest;

impl Device {
    fn queue(&mut self, index: u32) -> Result<&mut Queue> {
        let (pair, side) = split(index);
        if pair >= PAIRS_MAX {
            return Err(Error::InvalidParam);
        }
        if pair >= self.pairs.len() {
            self.pairs.resize_with(pair + 1, Default::default);
        }
        Ok(&mut self.pairs[pair][side])
    }

    /// Starts a ring whose description is complete, and looks for frames in it. The ring exists.
    fn start(&mut self, index: u32) -> Result<()> {
        let event_idx = self.has(EVENT_IDX);
        let (pair, side) = split(index);
        let queue = &mut self.pairs[pair][side];
        let (Some(memory), Some(kick)) = (&self.memory, &queue.kick) else {
            return Ok(());
        };
        if !queue.ring.is_ready() && !queue.ring.start(&memory.mapped, event_idx) {
            return Err(Error::InvalidParam);
        }
        // The driver may have notified before this side listened.
        let _ = rustix::io::write(&kick.file, &1_u64.to_ne_bytes());
        Ok(())
    }
}

/// Returns the pair of a ring, and its side of the pair.
fn split(index: u32) -> (usize, usize) {
    (index as usize / 2, index as usize % 2)
}

/// Makes writes to a descriptor of the peer fail instead of block.
fn unblocked(file: Option<File>) -> Result<Option<File>> {
    if let Some(file) = &file {
        let set = || fcntl_setfl(file, fcntl_getfl(file)? | OFlags::NONBLOCK);
        set().map_err(|error| Error::ReqHandlerError(error.into()))?;
    }
    Ok(file)
}

const UNSUPPORTED: Error = Error::InvalidOperation("not supported by this device");

impl VhostUserBackendReqHandlerMut for Device {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.reset_device()
    }

    fn reset_device(&mut self) -> Result<()> {
        self.forget_rings();
        Ok(())
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(OFFERED)
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !OFFERED != 0 {
            return Err(Error::FeatureMismatch);
        }
        self.features = features;
        Ok(())
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _: Option<bool>,
    ) -> Result<Option<Vec<u64>>> {
        let memory = Memory::map(regions, files).map_err(Error::ReqHandlerError)?;
        for queue in self.pairs.iter_mut().flatten() {
            if queue.ring.is_ready() && !queue.ring.is_in(&memory.mapped) {
                queue.ring.stop();
            }
        }
        self.memory = Some(memory);
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, descriptors: u32) -> Result<()> {
        let size = u16::try_from(descriptors).map_err(|_| Error::InvalidParam)?;
        self.queue(index)?
            .ring
            .set_size(size)
            .map_err(|_| Error::InvalidParam)
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _: VhostUserVringAddrFlags,
        descriptors: u64,
        used: u64,
        available: u64,
        _: u64,
    ) -> Result<()> {
        let memory = self.memory.as_ref().ok_or(Error::InvalidParam)?;
        let address = |user| memory.guest_address(user).ok_or(Error::InvalidParam);
        let places: [GuestAddress; 3] =
            [address(descriptors)?, address(available)?, address(used)?];
        self.queue(index)?
            .ring
            .set_places(places)
            .map_err(|_| Error::InvalidParam)
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        let base = u16::try_from(base).map_err(|_| Error::InvalidParam)?;
        self.queue(index)?.ring.set_base(base);
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let queue = self.queue(index)?;
        queue.ring.stop();
        queue.kick = None;
        queue.call = None;
        Ok(VhostUserVringState::new(index, queue.ring.base().into()))
    }

    fn set_vring_kick(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let (registrar, token) = (self.registrar.clone(), self.token);
        // Without a descriptor this side would have to poll the ring.
        let file = unblocked(file)?.ok_or(UNSUPPORTED)?;
        let is_awaited = split(index.into()).1 == FROM_GUEST;
        let queue = self.queue(index.into())?;
        queue.kick = None;
        if is_awaited {
            let registered = registrar.register(&file, token, Interest::Edge);
            registered.map_err(Error::ReqHandlerError)?;
        }
        queue.kick = Some(Kick {
            file,
            registrar: is_awaited.then_some(registrar),
        });
        self.start(index.into())
    }

    fn set_vring_call(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let file = unblocked(file)?;
        self.queue(index.into())?.call = file;
        Ok(())
    }

    fn set_vring_err(&mut self, index: u8, _: Option<File>) -> Result<()> {
        // A ring that the driver broke is counted; QEMU ignores this descriptor.
        self.queue(index.into()).map(|_| ())
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        // The library adds the one that it implements (REPLY_ACK).
        Ok(VhostUserProtocolFeatures::MQ)
    }

    fn set_protocol_features(&mut self, _: u64) -> Result<()> {
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        // QEMU compares this with the number of pairs. The protocol calls it the number of queues.
        Ok(PAIRS_MAX as u64)
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        self.queue(index)?.is_enabled = Some(enable);
        if enable {
            self.start(index)?;
        }
        Ok(())
    }

    fn get_config(&mut self, _: u32, _: u32, _: VhostUserConfigFlags) -> Result<Vec<u8>> {
        Err(UNSUPPORTED)
    }

    fn set_config(&mut self, _: u32, _: &[u8], _: VhostUserConfigFlags) -> Result<()> {
        Err(UNSUPPORTED)
    }

    fn set_gpu_socket(&mut self, _: GpuBackend) -> Result<()> {
        Err(UNSUPPORTED)
    }

    fn get_shared_object(&mut self, _: VhostUserSharedMsg) -> Result<File> {
        Err(UNSUPPORTED)
    }

    fn get_inflight_fd(&mut self, _: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        Err(UNSUPPORTED)
    }

    fn set_inflight_fd(&mut self, _: &VhostUserInflight, _: File) -> Result<()> {
        Err(UNSUPPORTED)
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Err(UNSUPPORTED)
    }

    fn add_mem_region(
        &mut self,
        _: &VhostUserSingleMemoryRegion,
        _: File,
        _: Option<bool>,
    ) -> Result<Option<u64>> {
        Err(UNSUPPORTED)
    }

    fn remove_mem_region(&mut self, _: &VhostUserSingleMemoryRegion) -> Result<()> {
        Err(UNSUPPORTED)
    }

    fn set_device_state_fd(
        &mut self,
        _: VhostTransferStateDirection,
        _: VhostTransferStatePhase,
        _: File,
    ) -> Result<Option<File>> {
        Err(UNSUPPORTED)
    }

    fn check_device_state(&mut self) -> Result<()> {
        Err(UNSUPPORTED)
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        Err(UNSUPPORTED)
    }

    fn set_log_base(&mut self, _: &VhostUserLog, _: File) -> Result<()> {
        Err(UNSUPPORTED)
    }
}
