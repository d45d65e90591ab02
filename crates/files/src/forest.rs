//! Trees of files: the checked description, from which every name, size and byte follows.
use hakaru_contract::files::{FilePlacement, TreesConfig};
use hakaru_contract::{ConfigError, refuse};
use twox_hash::XxHash3_128;

use crate::content::Content;
use crate::draw::{self, Use};
use crate::shape::{Shape, folder_name};
use crate::sizes::Sizes;

/// Largest number of files in all trees.
pub const FILES_MAX: u64 = 1 << 24;
/// Largest sum of the sizes of all files, as file systems count in signed numbers.
const BYTES_MAX: u128 = i64::MAX as u128;
/// Unit in which file systems give space to files and folders.
const BLOCK_BYTES: u64 = 4096;
/// Largest factor by which the sizes above a threshold are stretched or shrunk.
const STRETCH_MAX: u128 = 4;
/// Probabilities of the thresholds above which sizes are stretched; the first one that is enough is
/// used. Changes of the largest files alone hardly change the distribution.
const THRESHOLDS: [f64; 4] = [0.98, 0.9, 0.5, 0.0];

/// Role of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Used by a load.
    Target,
    /// Not used by a load; read to displace caches.
    Dummy,
}

/// A file of the trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    /// Tree, from 0.
    pub tree: u32,
    /// Role.
    pub role: Role,
    /// Number among the files of the tree with this role, from 0.
    pub index: u32,
}

impl FileId {
    /// Place of the file in draws.
    fn place(self) -> [u32; 3] {
        [self.tree, u32::from(self.role == Role::Dummy), self.index]
    }
}

/// Files and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Files.
    pub files: u64,
    /// Sum of their sizes.
    pub bytes: u64,
}

/// The trees of a description.
#[derive(Clone, Debug)]
pub struct Forest {
    config: TreesConfig,
    shape: Shape,
    content: Content,
    targets: Sizes,
    dummies: Sizes,
    /// Bounds of each level's share of the files, for placement by level.
    levels: Vec<f64>,
    stretch: Option<Stretch>,
    of_targets: Total,
    of_dummies: Total,
}

/// Stretches the drawn sizes of targets above a threshold, so that the sum is exact. Integers only,
/// because the sum must not depend on rounding.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    threshold: u64,
    divisor: u64,
    numerator: u128,
    denominator: u128,
    /// The first files get one byte more each.
    one_more: u64,
}

impl Stretch {
    fn apply(&self, drawn: u64, number: u64) -> u64 {
        let excess = u128::from(drawn.saturating_sub(self.threshold));
        // At most 2^50 * 2^66: `numerator` is at most 4 times the sum of 2^24 sizes of 2^50.
        let stretched = (excess * self.numerator / self.denominator) as u64;
        self.kept(drawn) + stretched + u64::from(number < self.one_more)
    }

    /// Returns the part of a size that is not stretched.
    fn kept(&self, drawn: u64) -> u64 {
        drawn.min(self.threshold) / self.divisor
    }
}

impl Forest {
    /// Checks a description. Draws all sizes once, to know their sum: about 100 ns per file.
    ///
    /// # Errors
    /// Returns an error for the first field that is out of bounds.
    pub fn new(config: &TreesConfig) -> Result<Forest, ConfigError> {
        check_counts(config)?;
        let targets = Sizes::new(&config.sizes, "sizes")?;
        let dummies = match &config.dummy_sizes {
            Some(sizes) => Sizes::new(sizes, "dummy_sizes")?,
            None => targets.clone(),
        };
        let mut forest = Forest {
            shape: Shape {
                seed: config.seed,
                depth: config.depth,
                folders: config.folders,
            },
            content: Content {
                seed: config.seed,
                config: config.content,
            },
            targets,
            dummies,
            levels: check_levels(config)?,
            stretch: None,
            of_targets: Total::default(),
            of_dummies: Total::default(),
            config: config.clone(),
        };
        if let Some(total) = config.total_bytes {
            forest.stretch = Some(forest.stretch_to(total)?);
        }
        let bytes = |role| -> u128 {
            let sizes = forest.of_role(role).map(|file| forest.size(file));
            sizes.map(u128::from).sum()
        };
        let (targets, dummies) = (bytes(Role::Target), bytes(Role::Dummy));
        if targets + dummies > BYTES_MAX {
            let hint = "use smaller sizes, fewer files or a larger `divide_sizes_by`";
            let problem = format!("{} bytes in all files", targets + dummies);
            return refuse("sizes", problem, hint);
        }
        let total = |per_tree: u32, bytes: u128| Total {
            files: u64::from(config.trees) * u64::from(per_tree),
            bytes: bytes as u64,
        };
        forest.of_targets = total(config.targets, targets);
        forest.of_dummies = total(config.dummies, dummies);
        Ok(forest)
    }

    /// Returns the description.
    #[must_use]
    pub fn config(&self) -> &TreesConfig {
        &self.config
    }

    /// Returns the digest of the description, 32 hexadecimal digits. Trees of equal digests are
    /// equal.
    #[must_use]
    pub fn digest(&self) -> String {
        // A description holds numbers and names only, which always serialise. The order of fields
        // is that of the type.
        let text = serde_json::to_vec(&self.config).expect("a description is representable");
        format!("{:032x}", XxHash3_128::oneshot(&text))
    }

    /// Returns the number and size of all targets.
    #[must_use]
    pub fn targets(&self) -> Total {
        self.of_targets
    }

    /// Returns the number and size of all dummies.
    #[must_use]
    pub fn dummies(&self) -> Total {
        self.of_dummies
    }

    /// Returns the space that all files and folders take on a usual file system, bytes: each a whole
    /// number of blocks of 4 KiB. Draws all sizes.
    #[must_use]
    pub fn space_bytes(&self) -> u128 {
        let files = self.of_role(Role::Target).chain(self.of_role(Role::Dummy));
        let blocks: u128 = files
            .map(|file| u128::from(self.size(file).div_ceil(BLOCK_BYTES)))
            .sum();
        let folders = u128::from(self.config.trees) * u128::from(self.config.folders);
        (blocks + folders) * u128::from(BLOCK_BYTES)
    }

    /// Returns the shape of the trees.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the files of a tree.
    pub fn files(&self, tree: u32) -> impl Iterator<Item = FileId> + use<> {
        let of = move |role, count| (0..count).map(move |index| FileId { tree, role, index });
        of(Role::Target, self.config.targets).chain(of(Role::Dummy, self.config.dummies))
    }

    /// Returns the size of a file, bytes.
    #[must_use]
    pub fn size(&self, file: FileId) -> u64 {
        let drawn = self.drawn_size(file);
        match (&self.stretch, file.role) {
            (Some(stretch), Role::Target) => stretch.apply(drawn, self.number(file)),
            _ => drawn / self.config.divide_sizes_by,
        }
    }

    /// Returns the folder of a file.
    #[must_use]
    pub fn folder(&self, file: FileId) -> u32 {
        let bits = || draw::bits(self.config.seed, Use::Folder, file.place(), 0);
        match &self.config.placement {
            FilePlacement::Even => file.index % self.config.folders,
            FilePlacement::Random => draw::below(bits(), u64::from(self.config.folders)) as u32,
            FilePlacement::Levels { .. } => {
                let bits = bits();
                let p = draw::fraction(bits);
                let index = self.levels.partition_point(|through| *through < p);
                let level = index.min(self.levels.len() - 1) as u32 + 1;
                let n = draw::below(bits >> 64, u64::from(self.shape.on_level(level)));
                self.shape.nth_on_level(level, n as u32)
            }
        }
    }

    /// Returns the name of a file within its folder.
    #[must_use]
    pub fn file_name(&self, file: FileId) -> String {
        let role = match file.role {
            Role::Target => 'f',
            Role::Dummy => 'x',
        };
        format!("{role}{:06}", file.index)
    }

    /// Returns the names that the profile `metadata` uses beside a file: before and after renaming.
    #[must_use]
    pub fn passing_names(&self, file: FileId) -> [String; 2] {
        let name = format!("n{:06}", file.index);
        let renamed = format!("{name}r");
        [name, renamed]
    }

    /// Returns the path of a folder below the directory of the trees, with `/` between names.
    #[must_use]
    pub fn folder_path(&self, tree: u32, folder: u32) -> String {
        let names: Vec<String> = self
            .shape
            .chain(tree, folder)
            .into_iter()
            .map(|folder| folder_name(tree, folder))
            .collect();
        names.join("/")
    }

    /// Returns the path of a file below the directory of the trees, with `/` between names.
    #[must_use]
    pub fn path(&self, file: FileId) -> String {
        let folder = self.folder_path(file.tree, self.folder(file));
        format!("{folder}/{}", self.file_name(file))
    }

    /// Writes the bytes of a file from `offset` on, whatever its size is.
    pub fn fill(&self, file: FileId, offset: u64, out: &mut [u8]) {
        self.content.fill(file.place(), offset, out);
    }

    /// Returns the checksum (XXH3, 128 bits) of a file.
    #[must_use]
    pub fn checksum(&self, file: FileId) -> u128 {
        let mut buffer = vec![0; 1 << 16];
        let (mut hasher, size, mut offset) = (XxHash3_128::new(), self.size(file), 0);
        while offset < size {
            let length = (size - offset).min(buffer.len() as u64) as usize;
            self.fill(file, offset, &mut buffer[..length]);
            hasher.write(&buffer[..length]);
            offset += length as u64;
        }
        hasher.finish_128()
    }

    fn drawn_size(&self, file: FileId) -> u64 {
        let sizes = match file.role {
            Role::Target => &self.targets,
            Role::Dummy => &self.dummies,
        };
        let bits = draw::bits(self.config.seed, Use::Size, file.place(), 0);
        sizes.quantile(draw::fraction(bits))
    }

    /// Returns the number of a target among those of all trees.
    fn number(&self, file: FileId) -> u64 {
        u64::from(file.tree) * u64::from(self.config.targets) + u64::from(file.index)
    }

    fn of_role(&self, role: Role) -> impl Iterator<Item = FileId> {
        let per_tree = match role {
            Role::Target => self.config.targets,
            Role::Dummy => self.config.dummies,
        };
        (0..self.config.trees)
            .flat_map(move |tree| (0..per_tree).map(move |index| FileId { tree, role, index }))
    }

    fn stretch_to(&self, total_bytes: u64) -> Result<Stretch, ConfigError> {
        let drawn: Vec<u64> = self
            .of_role(Role::Target)
            .map(|file| self.drawn_size(file))
            .collect();
        for (i, probability) in THRESHOLDS.iter().enumerate() {
            let threshold = match probability {
                0.0 => self.targets.min_bytes(),
                p => self.targets.quantile(*p),
            };
            // The largest files take the difference alone only if it is small for them.
            let factor_max = if i + 1 < THRESHOLDS.len() {
                2
            } else {
                STRETCH_MAX
            };
            if let Some(stretch) = self.stretch_above(threshold, factor_max, total_bytes, &drawn) {
                return Ok(stretch);
            }
        }
        let count = drawn.len() as u64;
        let sum: u128 = drawn.iter().map(|size| u128::from(*size)).sum();
        let problem = format!(
            "{total_bytes} is {} bytes per file, and the drawn sizes have a mean of {}",
            total_bytes / count,
            sum / u128::from(count)
        );
        refuse(
            "total_bytes",
            problem,
            "choose a sum and a distribution that fit together",
        )
    }

    /// Returns the stretch above a threshold, if its factor is at most `factor_max` and at least
    /// the reciprocal.
    fn stretch_above(
        &self,
        threshold: u64,
        factor_max: u128,
        total_bytes: u64,
        drawn: &[u64],
    ) -> Option<Stretch> {
        let divisor = self.config.divide_sizes_by;
        let total = total_bytes / divisor;
        let excess = |size: &u64| u128::from(size.saturating_sub(threshold));
        let denominator: u128 = drawn.iter().map(excess).sum();
        let mut stretch = Stretch {
            threshold,
            divisor,
            numerator: 0,
            denominator,
            one_more: 0,
        };
        let kept: u128 = drawn
            .iter()
            .map(|size| u128::from(stretch.kept(*size)))
            .sum();
        stretch.numerator = u128::from(total).checked_sub(kept)?;
        let unstretched = denominator / u128::from(divisor);
        let fits = unstretched > 0
            && stretch.numerator <= unstretched * factor_max
            && stretch.numerator * factor_max >= unstretched;
        if !fits {
            return None;
        }
        let floored: u64 = drawn
            .iter()
            .map(|size| stretch.apply(*size, u64::MAX))
            .sum();
        // Below the number of stretched files, because each was rounded down by less than 1.
        stretch.one_more = total - floored;
        Some(stretch)
    }
}

fn check_counts(config: &TreesConfig) -> Result<(), ConfigError> {
    let within = |field: &str, value: u64, low: u64, high: u64| {
        if (low..=high).contains(&value) {
            return Ok(());
        }
        refuse(field, value.to_string(), format!("use {low} to {high}"))
    };
    within("trees", config.trees.into(), 1, 65_536)?;
    within("depth", config.depth.into(), 1, 64)?;
    let most = if config.depth == 1 { 1 } else { 65_536 };
    within("folders", config.folders.into(), config.depth.into(), most)?;
    within("targets", config.targets.into(), 1, 1_000_000)?;
    within("dummies", config.dummies.into(), 0, 1_000_000)?;
    within("divide_sizes_by", config.divide_sizes_by, 1, 1_000_000_000)?;
    let content = &config.content;
    within(
        "content.compressible_percent",
        content.compressible_percent.into(),
        0,
        100,
    )?;
    within(
        "content.duplicate_percent",
        content.duplicate_percent.into(),
        0,
        100,
    )?;
    let files = u64::from(config.trees) * u64::from(config.targets + config.dummies);
    if files > FILES_MAX {
        let hint = format!("use at most {FILES_MAX} files in all trees together");
        return refuse("targets", format!("{files} files in all trees"), hint);
    }
    Ok(())
}

/// Returns the bounds of each level's share.
fn check_levels(config: &TreesConfig) -> Result<Vec<f64>, ConfigError> {
    let FilePlacement::Levels { weights } = &config.placement else {
        return Ok(Vec::new());
    };
    let field = "placement.weights";
    let sum: f64 = weights.iter().sum();
    if weights.is_empty() || weights.len() > config.depth as usize {
        let hint = format!("use 1 to {}, one per level", config.depth);
        return refuse(field, format!("{} weights", weights.len()), hint);
    }
    if weights.iter().any(|w| !w.is_finite() || *w < 0.0) || !sum.is_finite() || sum == 0.0 {
        let hint = "use finite numbers of at least 0, one of which is above 0";
        return refuse(field, format!("{weights:?}"), hint);
    }
    let mut through = 0.0;
    let mut bounds: Vec<f64> = weights
        .iter()
        .map(|weight| {
            through += weight / sum;
            through
        })
        .collect();
    // Levels behind the last weight above 0 have no files, even if the sum is rounded.
    while bounds.len() > 1 && weights[bounds.len() - 1] == 0.0 {
        bounds.pop();
    }
    Ok(bounds)
}
