//! The `format` file of a tracepoint: the position of each field in its records. It differs between
//! kernels.

/// Position of a field in the raw record, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Offset from the start of the record.
    pub offset: usize,
    /// Length.
    pub size: usize,
}

impl Field {
    /// Reads the field in the machine's byte order. `None` if the record is too short or the field
    /// is not a number of 1, 2, 4 or 8 bytes.
    #[must_use]
    pub fn number(self, record: &[u8]) -> Option<u64> {
        let bytes = self.bytes(record)?;
        Some(match self.size {
            1 => u64::from(bytes[0]),
            2 => u64::from(u16::from_ne_bytes(bytes.try_into().ok()?)),
            4 => u64::from(u32::from_ne_bytes(bytes.try_into().ok()?)),
            8 => u64::from_ne_bytes(bytes.try_into().ok()?),
            _ => return None,
        })
    }

    /// Returns the bytes of the field.
    #[must_use]
    pub fn bytes(self, record: &[u8]) -> Option<&[u8]> {
        record.get(self.offset..self.offset.checked_add(self.size)?)
    }
}

/// A tracepoint's layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// Number of the tracepoint, with which its records begin.
    pub id: u16,
    fields: Vec<(String, Field)>,
}

impl Format {
    /// Parses the text of the file. `None` if it has no number or no field. Lines that are not
    /// fields are skipped.
    #[must_use]
    pub fn parse(text: &str) -> Option<Format> {
        let mut id = None;
        let mut fields = Vec::new();
        for line in text.lines() {
            let line = line.trim();
            if let Some(number) = line.strip_prefix("ID:") {
                id = number.trim().parse().ok();
            } else if let Some(field) = line.strip_prefix("field:") {
                fields.extend(parse_field(field));
            }
        }
        let id = id?;
        (!fields.is_empty()).then_some(Format { id, fields })
    }

    /// Returns the field of that name, if this kernel has it.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<Field> {
        let field = self.fields.iter().find(|(known, _)| known == name);
        field.map(|(_, field)| *field)
    }
}

/// Parses a field, for example `__u8 saddr[28]; offset:8; size:28; signed:0;`.
fn parse_field(text: &str) -> Option<(String, Field)> {
    let mut parts = text.split(';').map(str::trim);
    let declared = parts.next()?;
    let name = declared.split('[').next()?.split_whitespace().next_back()?;
    let mut number =
        |prefix: &str| -> Option<usize> { parts.next()?.strip_prefix(prefix)?.trim().parse().ok() };
    let field = Field {
        offset: number("offset:")?,
        size: number("size:")?,
    };
    Some((name.trim_start_matches('*').to_owned(), field))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_where_the_kernel_says() {
        let text = "name: tcp_probe
ID: 2273
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:__u8 saddr[28];	offset:8;	size:28;	signed:0;
	field:__u32 snd_cwnd;	offset:88;	size:4;	signed:0;
	field:const void * skaddr;	offset:128;	size:8;	signed:0;
	field:const void *skbaddr;	offset:120;	size:8;	signed:0;

print fmt: \"family=%s\", REC->family
";
        let format = Format::parse(text).unwrap();
        assert_eq!(format.id, 2273);
        let at = |offset, size| Some(Field { offset, size });
        assert_eq!(format.field("saddr"), at(8, 28));
        assert_eq!(format.field("snd_cwnd"), at(88, 4));
        assert_eq!(format.field("skaddr"), at(128, 8));
        assert_eq!(format.field("skbaddr"), at(120, 8));
        assert_eq!(format.field("sock_cookie"), None);
    }

    #[test]
    fn text_that_is_not_a_format_is_none() {
        assert_eq!(Format::parse(""), None);
        assert_eq!(Format::parse("ID: 7"), None);
        assert_eq!(
            Format::parse("ID: x\nfield:int a; offset:0; size:4; signed:1;"),
            None
        );
        let cut = Format::parse("ID: 7\nfield:int a; offset:0;\nfield:int b; offset:4; size:4;");
        assert_eq!(cut.unwrap().fields.len(), 1);
    }

    #[test]
    fn field_beyond_the_record_has_no_number() {
        let field = Field { offset: 6, size: 4 };
        assert_eq!(field.number(&[0; 9]), None);
        assert_eq!(field.number(&[0; 10]), Some(0));
        let odd = Field { offset: 0, size: 3 };
        assert_eq!(odd.number(&[0; 9]), None);
        let huge = Field {
            offset: 1,
            size: usize::MAX,
        };
        assert_eq!(huge.bytes(&[0; 9]), None);
    }
}
