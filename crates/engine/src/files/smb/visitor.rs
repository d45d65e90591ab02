//! Building, checking and deleting the files of folders of a share.
use std::io;
use std::sync::Arc;

use hakaru_smb::{Step, WriteData};

use super::session::Session;
use crate::failure::Failure;
use crate::files::root::{CHUNK_BYTES, Fill, Visitor};

/// State of one thread that builds, checks or deletes.
pub struct ShareVisitor {
    session: Session,
    /// Path of the current folder below the destination, with `/` behind it unless it is empty.
    folder: String,
    buffer: Arc<Vec<u8>>,
}

impl ShareVisitor {
    pub fn new(session: Session) -> ShareVisitor {
        ShareVisitor {
            session,
            folder: String::new(),
            buffer: Arc::new(vec![0; CHUNK_BYTES]),
        }
    }

    fn at(&self, name: &str) -> hakaru_smb::wire::Path {
        self.session.path(&format!("{}{name}", self.folder))
    }

    /// Carries out a step. Returns its number of bytes.
    fn run(&mut self, step: Step) -> io::Result<u64> {
        let ended = self.session.step(step)?;
        ended.result.map_err(super::problem::io_error)
    }

    /// Closes the open file after `result`, which is returned unless only the close fails.
    fn close_after<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        let closed = self.run(Step::Close);
        result.and_then(|value| closed.map(|_| value))
    }

    /// Returns the largest part of a file that one request may have, bytes.
    fn chunk(&self, of: impl Fn(&hakaru_smb::SessionFacts) -> u32) -> usize {
        let limit = self.session.facts().map_or(u32::MAX, of);
        CHUNK_BYTES.min(limit as usize)
    }

    fn write_all(&mut self, size: u64, fill: &mut Fill<'_>) -> io::Result<()> {
        let chunk = self.chunk(|facts| facts.write_bytes_max);
        let mut offset = 0;
        while offset < size {
            let length = (size - offset).min(chunk as u64) as usize;
            fill(offset, &mut Arc::make_mut(&mut self.buffer)[..length]);
            let mut begin = 0;
            while begin < length {
                let data = WriteData {
                    buffer: Arc::clone(&self.buffer),
                    range: begin..length,
                };
                let at = offset + begin as u64;
                match self.run(Step::Write { offset: at, data })? {
                    0 => return Err(io::ErrorKind::WriteZero.into()),
                    written => begin += written as usize,
                }
            }
            offset += length as u64;
        }
        Ok(())
    }

    fn read_all(&mut self, size: u64, check: &mut dyn FnMut(u64, &[u8]) -> bool) -> io::Result<()> {
        let chunk = self.chunk(|facts| facts.read_bytes_max);
        let mut offset = 0;
        while offset < size {
            let length = (size - offset).min(chunk as u64) as u32;
            let ended = self.session.step(Step::Read {
                offset,
                length,
                keep: true,
            })?;
            if ended.data.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if !check(offset, &ended.data) {
                break;
            }
            offset += ended.data.len() as u64;
        }
        Ok(())
    }
}

impl Visitor for ShareVisitor {
    fn enter(&mut self, names: &[String], create: bool) -> io::Result<()> {
        self.folder.clear();
        let path = names.join("/");
        if path.is_empty() {
            return Ok(());
        }
        if create {
            let path = self.session.path(&path);
            match self.run(Step::CreateFolder { path }) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        let looked_up = self.session.path(&path);
        self.run(Step::Lookup { path: looked_up })?;
        self.folder = path + "/";
        Ok(())
    }

    fn entries(&mut self) -> io::Result<u64> {
        let path = self.session.path(self.folder.trim_end_matches('/'));
        self.run(Step::List { path })
    }

    fn file_bytes(&mut self, name: &str) -> io::Result<Option<u64>> {
        let path = self.at(name);
        match self.run(Step::Stat { path }) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write(&mut self, name: &str, size: u64, fill: &mut Fill<'_>) -> io::Result<()> {
        let path = self.at(name);
        self.run(Step::OpenWrite { path })?;
        let written = self.write_all(size, fill);
        self.close_after(written)
    }

    fn read(
        &mut self,
        name: &str,
        accept: &mut dyn FnMut(u64) -> bool,
        check: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> io::Result<()> {
        let path = self.at(name);
        let size = self.run(Step::OpenRead { path })?;
        let read = match accept(size) {
            true => self.read_all(size, check),
            false => Ok(()),
        };
        self.close_after(read)
    }

    fn drop_from_cache(&mut self, _name: &str) -> io::Result<()> {
        Err(io::Error::other("the file server has a cache of its own"))
    }

    fn delete_file(&mut self, name: &str) -> io::Result<bool> {
        let path = self.at(name);
        deleted(self.run(Step::Delete { path }))
    }

    fn delete_folder(&mut self, names: &[String]) -> io::Result<()> {
        let Some((name, above)) = names.split_last() else {
            return Ok(());
        };
        self.folder = match above {
            [] => String::new(),
            above => above.join("/") + "/",
        };
        let path = self.at(name);
        deleted(self.run(Step::DeleteFolder { path })).map(drop)
    }

    fn lost(&self) -> Option<Failure> {
        self.session.lost()
    }
}

/// Returns whether something was deleted; `false` if it did not exist.
fn deleted(result: io::Result<u64>) -> io::Result<bool> {
    match result {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
