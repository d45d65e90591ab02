//! A transport to a mounted file system: operations of a tool as calls of the operating system.
//!
//! The calling thread waits for each of them. Names are looked up one folder at a time, from the
//! handle of the folder before.
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use hakaru_files::{Action, OpenMode, Operation};
use hakaru_runtime::file::folder::{self, Folder};

use super::place::Place;

/// State of one tool.
pub struct Directory {
    place: Arc<Place>,
    /// Folders that were looked up, from the tree's root down.
    chain: Vec<Folder>,
    file: Option<File>,
}

impl Directory {
    pub fn new(place: Arc<Place>) -> Directory {
        Directory {
            place,
            chain: Vec::new(),
            file: None,
        }
    }

    /// Carries out an operation. `buffer` has the data of a write, or receives that of a read.
    ///
    /// # Errors
    /// As the system call.
    pub fn execute(&mut self, operation: &Operation, buffer: &mut [u8]) -> io::Result<u64> {
        let name = last_name(&operation.path);
        match &operation.action {
            Action::Lookup { level } => {
                self.chain.truncate(*level as usize - 1);
                let found = self.folder().lookup(name)?;
                self.chain.push(found);
                Ok(0)
            }
            Action::Open {
                mode: OpenMode::Read,
            } => {
                let file = self.folder().open_file(name)?;
                let metadata = file.metadata()?;
                if !metadata.is_file() {
                    return Err(io::Error::other("it is not a regular file"));
                }
                self.file = Some(file);
                Ok(metadata.len())
            }
            Action::Open {
                mode: OpenMode::Write,
            } => {
                self.file = Some(self.folder().write_file(name)?);
                Ok(0)
            }
            Action::Read { offset, length } => {
                let part = &mut buffer[..*length as usize];
                self.open_file()?
                    .read_at(part, *offset)
                    .map(|read| read as u64)
            }
            Action::Write { offset, length } => {
                let part = &buffer[..*length as usize];
                self.open_file()?
                    .write_at(part, *offset)
                    .map(|written| written as u64)
            }
            Action::Flush => self.open_file()?.sync_all().map(|()| 0),
            Action::Close => {
                let file = self.file.take().ok_or_else(not_open)?;
                folder::close(file).map(|()| 0)
            }
            Action::Create => folder::close(self.folder().create_file(name)?).map(|()| 0),
            Action::Stat => match self.folder().file_bytes(name)? {
                Some(_) => Ok(0),
                None => Err(io::ErrorKind::NotFound.into()),
            },
            Action::Rename { to } => self.folder().rename_file(name, last_name(to)).map(|()| 0),
            Action::Delete => match self.folder().delete_file(name)? {
                true => Ok(0),
                false => Err(io::ErrorKind::NotFound.into()),
            },
        }
    }

    fn folder(&self) -> &Folder {
        self.chain.last().unwrap_or(self.place.folder())
    }

    fn open_file(&self) -> io::Result<&File> {
        self.file.as_ref().ok_or_else(not_open)
    }
}

fn not_open() -> io::Error {
    io::Error::other("no file is open")
}

fn last_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
