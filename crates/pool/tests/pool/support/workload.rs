//! Workloads on a small pool, with the valid contents after a crash at each position of the log.
#![allow(dead_code)]

use std::sync::Arc;

use hakaru_pool::disk::{Disk, MemoryDisk, Recorder};
use hakaru_pool::{Failure, PoolConfig};

use super::oracle::{BLOCK, Model, stamps};
use super::pages::Pages;
use super::recovery::disks;
use super::{Driver, Ended, PAGE, Planted};

pub const PAGE_BLOCKS: u64 = PAGE / BLOCK as u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A write to a mapped page.
    Overwrite,
    /// A write to two unmapped pages.
    FirstWrite,
    FuaWrite,
    /// An unmapping of a page and half of the next.
    Unmap,
    Flush,
    Snapshot,
    Clone,
    /// A clone, and a write to two of its pages.
    CloneAndWrite,
    /// A write to a page of the newest clone.
    WriteClone,
    /// An unmapping of a page of the newest clone and half of the next.
    UnmapClone,
    Grow,
    Create,
    /// The deletion of the newest copy, else of `b`.
    Delete,
}

/// The initial disks of a workload, and their contents.
#[derive(Clone, Debug)]
pub struct Base {
    disks: Vec<MemoryDisk>,
    model: Model,
    pages: Pages,
}

impl Base {
    /// Creates a flushed pool. Volume `a` has two pages and a third that was unmapped, volume `b`
    /// has one page, and volume `B` uses all other pages except `free_pages`.
    pub fn new(group_pages: u64, free_pages: u64) -> Base {
        let memory: Vec<Arc<MemoryDisk>> = (0..4).map(|_| Arc::new(MemoryDisk::new(0))).collect();
        let mut all = disks(memory.iter().map(|disk| disk.clone() as Arc<dyn Disk>));
        let group = all.groups.remove("g0").unwrap();
        let driver = Driver::create(PoolConfig::default(), all).unwrap();
        let mut run = Run::of(driver, Recorder::new(), Model::default(), Pages::default());
        run.grow("g0", group, group_pages).unwrap();
        run.create("a", 5 * PAGE_BLOCKS + 2).unwrap();
        run.create("b", 2 * PAGE_BLOCKS).unwrap();
        run.write("a", 0, 2 * PAGE_BLOCKS, false).unwrap();
        run.write("b", 3, PAGE_BLOCKS - 3, false).unwrap();
        run.write("a", 2 * PAGE_BLOCKS, PAGE_BLOCKS, false).unwrap();
        run.unmap("a", 2 * PAGE_BLOCKS, PAGE_BLOCKS).unwrap();
        let ballast = group_pages - run.pages.used() as u64 - free_pages;
        if ballast > 0 {
            run.create("B", ballast * PAGE_BLOCKS).unwrap();
            run.write("B", 0, ballast * PAGE_BLOCKS, false).unwrap();
        }
        run.perform(Op::Flush).unwrap();
        run.driver.settle();
        Base {
            disks: memory.iter().map(|disk| (**disk).clone()).collect(),
            model: run.model,
            pages: run.pages,
        }
    }
}

/// A pool under a workload.
pub struct Run {
    pub driver: Driver,
    pub recorder: Recorder,
    /// Models, each with the position of the log from which it is valid.
    models: Vec<(usize, Model)>,
    model: Model,
    pages: Pages,
    /// Disks for new groups.
    spare: Vec<Arc<dyn Disk>>,
    /// Data pages of each new group.
    grow_pages: u64,
    /// Number of the last write; the base uses fewer than 10.
    value: u64,
    /// Number of requests that were refused because the pool was full.
    pub refused: u64,
}

impl Run {
    /// Opens the pool of `base`. Each new group has `grow_pages` data pages.
    pub fn new(base: &Base, grow_pages: u64, planted: Planted) -> Run {
        let recorder = Recorder::new();
        let recorded: Vec<Arc<dyn Disk>> = base
            .disks
            .iter()
            .map(|disk| Arc::new(recorder.disk(disk)) as Arc<dyn Disk>)
            .collect();
        let all = disks(recorded.iter().take(2).cloned());
        let mut driver = Driver::open(PoolConfig::default(), all).unwrap();
        driver.planted = planted;
        Run {
            spare: recorded[2..].iter().rev().cloned().collect(),
            grow_pages,
            value: 10,
            ..Run::of(driver, recorder, base.model.clone(), base.pages.clone())
        }
    }

    fn of(driver: Driver, recorder: Recorder, model: Model, pages: Pages) -> Run {
        Run {
            driver,
            models: vec![(0, model.clone())],
            recorder,
            model,
            pages,
            spare: Vec::new(),
            grow_pages: 0,
            value: 0,
            refused: 0,
        }
    }

    /// Carries out an operation. `Err` describes a result that the page accounting does not allow.
    pub fn perform(&mut self, op: Op) -> Result<(), String> {
        let turn = self.models.len();
        match op {
            Op::Overwrite => self.write("a", 5, 3, false),
            Op::FirstWrite => self.write("a", 3 * PAGE_BLOCKS - 2, 3, false),
            Op::FuaWrite => self.write("b", PAGE_BLOCKS - 1, 2, true),
            Op::Unmap => self.unmap("a", 0, PAGE_BLOCKS + PAGE_BLOCKS / 2),
            Op::Flush => {
                self.driver.flush().map_err(|error| error.to_string())?;
                self.model.settle_all();
                self.mark();
                Ok(())
            }
            Op::Snapshot => self.copy(&format!("s{turn}"), true),
            Op::Clone => self.copy(&format!("k{turn}"), false),
            Op::CloneAndWrite => {
                let name = format!("k{turn}");
                self.copy(&name, false)?;
                self.write(&name, PAGE_BLOCKS - 1, 2, false)
            }
            Op::WriteClone => match self.newest("k") {
                Some(name) => self.write(&name, 7, 2, false),
                None => Ok(()),
            },
            Op::UnmapClone => match self.newest("k") {
                Some(name) => self.unmap(&name, 0, PAGE_BLOCKS + PAGE_BLOCKS / 2),
                None => Ok(()),
            },
            Op::Grow => {
                let Some(disk) = self.spare.pop() else {
                    return Ok(());
                };
                let name = ["g2", "g1"][self.spare.len()];
                self.grow(name, disk, self.grow_pages)
            }
            Op::Create => self.create(&format!("c{turn}"), PAGE_BLOCKS),
            Op::Delete => match self.newest("") {
                Some(name) => self.delete(&name),
                None => Ok(()),
            },
        }?;
        let used = self.driver.pool.status().used_bytes / PAGE;
        let expected = self.pages.used() as u64;
        if used != expected {
            return Err(format!(
                "{used} pages are used after {op:?}, not {expected}"
            ));
        }
        Ok(())
    }

    /// Returns the last volume in order of names that starts with `prefix`, except `a`.
    fn newest(&self, prefix: &str) -> Option<String> {
        let names = self.model.volumes.keys().rev();
        let mut matching = names.filter(|name| *name != "a" && name.starts_with(prefix));
        matching.next().cloned()
    }

    /// Returns the model at a position of the log. If an operation ended there without a record,
    /// returns the later model.
    pub fn model_at(&self, position: usize) -> &Model {
        let (_, model) = self
            .models
            .iter()
            .rev()
            .find(|(from, _)| *from <= position)
            .unwrap();
        model
    }

    /// Records the model that is valid from here on.
    fn mark(&mut self) {
        self.models
            .push((self.recorder.position(), self.model.clone()));
    }

    fn write(&mut self, name: &str, first: u64, blocks: u64, fua: bool) -> Result<(), String> {
        let Some(id) = self.model.volumes.get(name).and_then(|volume| volume.id) else {
            return Ok(());
        };
        self.value += 1;
        let pages = first / PAGE_BLOCKS..(first + blocks).div_ceil(PAGE_BLOCKS);
        let expected = self.pages.write(name, pages);
        if expected.is_ok() {
            self.model.write(name, first, blocks, self.value);
            self.mark();
        }
        let data = stamps(self.value, first, blocks);
        let result = self.driver.write(id, first * BLOCK as u64, &data, fua);
        if fua && result.is_ok() {
            self.model.settle(name, first, blocks);
            self.mark();
        }
        self.compare(&format!("a write to {name}"), result, expected)
    }

    /// Unmaps `blocks` blocks from `first`, which is the start of a page.
    fn unmap(&mut self, name: &str, first: u64, blocks: u64) -> Result<(), String> {
        let end = first + blocks;
        let whole = first / PAGE_BLOCKS..end / PAGE_BLOCKS;
        let part = (!end.is_multiple_of(PAGE_BLOCKS)).then_some(end / PAGE_BLOCKS);
        let expected = self.pages.unmap(name, whole, part);
        if expected.is_ok() {
            self.model.write(name, first, blocks, 0);
            self.mark();
        }
        let id = self.model.volumes[name].id.unwrap();
        let range = (first * BLOCK as u64, blocks * BLOCK as u64);
        let result = self.driver.unmap(id, &[range], false);
        self.compare(&format!("an unmapping of {name}"), result, expected)
    }

    fn compare(&mut self, request: &str, result: Ended, expected: Ended) -> Result<(), String> {
        self.refused += u64::from(expected == Err(Failure::Full));
        if result == expected {
            return Ok(());
        }
        Err(format!(
            "{request} is answered {result:?}, not {expected:?}"
        ))
    }

    fn copy(&mut self, name: &str, read_only: bool) -> Result<(), String> {
        self.pages.copy("a", name);
        self.model.copy("a", name);
        self.mark();
        let a = self.model.volumes["a"].id.unwrap();
        let id = self.driver.copy_volume(a, name, read_only);
        self.model
            .created(name, id.map_err(|error| error.to_string())?);
        self.mark();
        Ok(())
    }

    fn create(&mut self, name: &str, blocks: u64) -> Result<(), String> {
        self.pages.create(name, blocks.div_ceil(PAGE_BLOCKS));
        self.model.create(name, blocks);
        self.mark();
        let id = self.driver.create_volume(name, blocks * BLOCK as u64, None);
        self.model
            .created(name, id.map_err(|error| error.to_string())?);
        self.mark();
        Ok(())
    }

    fn delete(&mut self, name: &str) -> Result<(), String> {
        let volume = self.model.volumes.get_mut(name).unwrap();
        volume.is_deleting = true;
        let id = volume.id.unwrap();
        self.mark();
        self.driver.delete(id).map_err(|error| error.to_string())?;
        self.model.volumes.remove(name);
        self.pages.delete(name);
        self.mark();
        Ok(())
    }

    fn grow(&mut self, name: &str, disk: Arc<dyn Disk>, pages: u64) -> Result<(), String> {
        let result = self.driver.grow(name, disk, (pages + 1) * PAGE);
        self.pages.grow(pages);
        result.map_err(|error| error.to_string())
    }
}
