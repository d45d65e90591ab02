//! Measures the time to open a pool and the size of its metadata, with 64 GiB mapped in a volume of
//! 1 TiB. The pool is on files in a folder (default: the temporary folder), which are removed at
//! the end. Pages are only mapped; no data is written.
//!
//! `cargo run --release -p hakaru-runtime --example pool_open [FOLDER]`
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use hakaru_pool::disk::Disk;
use hakaru_pool::metadata::Store;
use hakaru_pool::{Action, ActionKind, Outcome, Pool, PoolConfig, Request, RequestId, VolumeId};
use hakaru_runtime::file::disk::FileDisk;
use hakaru_units::{GIB, KIB, MIB, Time};

const MAPPED_BYTES: u64 = 64 * GIB;
const VOLUME_BYTES: u64 = 1024 * GIB;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let folder = std::env::args_os()
        .nth(1)
        .map_or_else(std::env::temp_dir, PathBuf::from)
        .join(format!("hakaru-pool-open-{}", std::process::id()));
    println!("page     order       leaves  metadata         share    create   open    first page");
    for page_bytes in [64 * KIB, 256 * KIB, MIB] {
        for scattered in [false, true] {
            std::fs::create_dir_all(&folder)?;
            let measured = measure(&folder, page_bytes as u32, scattered);
            std::fs::remove_dir_all(&folder)?;
            println!("{}", measured?);
        }
    }
    Ok(())
}

/// Creates, maps, abandons and reopens one pool. Returns a row of the table.
fn measure(folder: &Path, page_bytes: u32, scattered: bool) -> Result<String, Failure> {
    let metadata_path = folder.join("metadata");
    let group_path = folder.join("group");
    let metadata: Arc<dyn Disk> = Arc::new(FileDisk::create(&metadata_path)?);
    let group: Arc<dyn Disk> = Arc::new(FileDisk::create(&group_path)?);

    let began = Instant::now();
    let (mut pool, mut store) =
        hakaru_pool::create(PoolConfig::default(), [7; 16], page_bytes, metadata)?;
    let size_bytes = MAPPED_BYTES + 2 * GIB;
    pool.prepare_group(group.as_ref(), size_bytes)?;
    let name = "group".to_owned();
    execute(
        &mut pool,
        &mut store,
        group.as_ref(),
        Request::AddGroup { name, size_bytes },
    )?;
    let request = Request::Create {
        name: "volume".to_owned(),
        size_bytes: VOLUME_BYTES,
        quota_bytes: None,
    };
    execute(&mut pool, &mut store, group.as_ref(), request)?;
    let volume = pool
        .volume_named("volume")
        .ok_or("the volume does not exist")?;
    let pages = MAPPED_BYTES / u64::from(page_bytes);
    let all = VOLUME_BYTES / u64::from(page_bytes);
    for index in 0..pages {
        // The number of pages is a power of two, so an odd factor visits each of them once, and
        // consecutive pages are far apart.
        let page = if scattered {
            index.wrapping_mul(0x9E37_79B1) % all
        } else {
            index
        };
        let request = write(volume, page * u64::from(page_bytes));
        execute(&mut pool, &mut store, group.as_ref(), request)?;
    }
    execute(&mut pool, &mut store, group.as_ref(), Request::Flush)?;
    assert_eq!(pool.status().used_bytes, MAPPED_BYTES);
    let created = began.elapsed();
    // Leaves the files as after a crash: nothing is closed.
    std::mem::forget(store);
    drop(pool);

    let began = Instant::now();
    let metadata: Arc<dyn Disk> = Arc::new(FileDisk::open(&metadata_path, true)?);
    let (mut pool, mut store) = hakaru_pool::open(PoolConfig::default(), metadata, &mut |_, _| {
        Ok(Arc::new(FileDisk::open(&group_path, true)?))
    })?;
    let opened = began.elapsed();
    let beyond = write(volume, VOLUME_BYTES - u64::from(page_bytes));
    execute(&mut pool, &mut store, group.as_ref(), beyond)?;
    let first_page = began.elapsed();
    assert!(pool.check().is_empty());
    let metadata_bytes =
        std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(&metadata_path)?) * 512;
    Ok(format!(
        "{:<4} KiB {:<10} {:>6}  {:>9.2} MiB   {:>8.4} %  {:>6.2} s  {:>5.0} ms  {:>5.0} ms",
        page_bytes / 1024,
        if scattered { "scattered" } else { "in order" },
        pages
            .div_ceil(512)
            .max(if scattered { all / 512 } else { 0 }),
        metadata_bytes as f64 / MIB as f64,
        metadata_bytes as f64 / MAPPED_BYTES as f64 * 100.0,
        created.as_secs_f64(),
        opened.as_secs_f64() * 1e3,
        first_page.as_secs_f64() * 1e3,
    ))
}

fn write(volume: VolumeId, offset_bytes: u64) -> Request {
    Request::Write {
        volume,
        offset_bytes,
        length_bytes: 4096,
        fua: false,
    }
}

/// Submits a request and carries out the pool's actions until the reply. Data of a
/// write is reported as transferred, although none is.
fn execute(
    pool: &mut Pool,
    store: &mut Store,
    group: &dyn Disk,
    request: Request,
) -> Result<(), Failure> {
    pool.handle_request(Time::ZERO, RequestId(0), request);
    loop {
        if let Some(reply) = pool.poll_reply() {
            match reply.outcome {
                Outcome::Ready { access, .. } => pool.handle_moved(Time::ZERO, access, true),
                Outcome::Failed(failure) => return Err(failure.into()),
                Outcome::Done | Outcome::Created(_) | Outcome::Grown(_) => {}
            }
            return Ok(());
        }
        let Action { id, kind } = pool
            .poll_action()
            .ok_or("the pool has neither a reply nor an action")?;
        match kind {
            ActionKind::Commit(batch) => store.commit(&batch)?,
            ActionKind::Discard {
                place,
                length_bytes,
            } => group.discard(place.offset_bytes, length_bytes)?,
            ActionKind::Sync { .. } => group.flush()?,
            ActionKind::Copy { .. } | ActionKind::Zero { .. } => {
                return Err(
                    "the pool requested a copy or zeros, which these requests never cause".into(),
                );
            }
        }
        pool.handle_action_done(Time::ZERO, id, Ok(()));
    }
}
