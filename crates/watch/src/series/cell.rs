//! Columns of a record: their types and bytes.

/// Length of an address column, bytes. The longest text is `[` IPv6 `]:65535`.
pub(super) const ADDRESS: usize = 48;
/// Length of a name column, bytes: `TCP_CA_NAME_MAX` of the kernel.
pub(super) const NAME: usize = 16;

/// Name and type of a column.
pub(super) type Column = (&'static str, &'static str);

/// Value of a column, emitted as bytes.
pub(super) trait Cell {
    const TYPE: &'static str;
    fn emit(&self, out: &mut Vec<u8>);
}

impl Cell for u64 {
    const TYPE: &'static str = "u64";
    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }
}

impl Cell for u32 {
    const TYPE: &'static str = "u32";
    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }
}

impl Cell for Option<u64> {
    const TYPE: &'static str = "u64";
    fn emit(&self, out: &mut Vec<u8>) {
        self.unwrap_or(u64::MAX).emit(out);
    }
}

/// A number that the kernel keeps in 32 bits or less.
pub(super) struct Narrow(pub(super) Option<u64>);

impl Cell for Narrow {
    const TYPE: &'static str = "u32";
    fn emit(&self, out: &mut Vec<u8>) {
        let narrow = self.0.and_then(|wide| u32::try_from(wide).ok());
        narrow.unwrap_or(u32::MAX).emit(out);
    }
}

/// A number below 255.
pub(super) struct Small(pub(super) Option<u64>);

impl Cell for Small {
    const TYPE: &'static str = "u8";
    fn emit(&self, out: &mut Vec<u8>) {
        let small = self.0.and_then(|wide| u8::try_from(wide).ok());
        out.push(small.unwrap_or(u8::MAX));
    }
}

/// A text of at most N bytes, padded with zeros.
pub(super) struct Text<const N: usize>(pub(super) String);

impl<const N: usize> Cell for Text<N> {
    const TYPE: &'static str = match N {
        ADDRESS => "s48",
        NAME => "s16",
        _ => panic!("no column type has this text length"),
    };
    fn emit(&self, out: &mut Vec<u8>) {
        let text = &self.0.as_bytes()[..self.0.len().min(N)];
        out.extend_from_slice(text);
        out.resize(out.len() + N - text.len(), 0);
    }
}

/// Defines a kind of record: its number, and its columns in order.
macro_rules! record {
    ($name:ident = $kind:literal { $($column:ident: $type:ty,)* }) => {
        pub(super) struct $name { $(pub(super) $column: $type,)* }
        impl $name {
            pub(super) const KIND: u32 = $kind;
            pub(super) const COLUMNS: &'static [Column] =
                &[$((stringify!($column), <$type as Cell>::TYPE),)*];
            pub(super) fn emit(&self, out: &mut Vec<u8>) {
                $(self.$column.emit(out);)*
            }
        }
    };
}
pub(super) use record;
