//! The commands of a device type, found by operation code and service action.

use super::info::CommandInfo;

/// The commands of a device type.
pub(super) struct CommandSet {
    /// All commands, ascending by operation code and service action.
    pub(super) table: &'static [&'static CommandInfo],
    /// Index in `table` of the first command with an operation code.
    first: [Option<u8>; 256],
}

impl CommandSet {
    pub(super) const fn new(table: &'static [&'static CommandInfo]) -> CommandSet {
        let mut first = [None; 256];
        let mut at = table.len();
        while at > 0 {
            at -= 1;
            first[table[at].opcode() as usize] = Some(at as u8);
        }
        CommandSet { table, first }
    }

    /// Returns the row of a CDB. An unknown service action gets the first row of its operation
    /// code; parsing refuses such a CDB.
    pub(super) fn find(&self, cdb: &[u8]) -> Option<&'static CommandInfo> {
        let opcode = *cdb.first()?;
        let at = usize::from(self.first[usize::from(opcode)]?);
        let row = self.table[at];
        if row.service_action.is_none() {
            return Some(row);
        }
        let action = u16::from(cdb.get(1)? & 0x1f);
        let mut rows = self.table[at..]
            .iter()
            .take_while(|row| row.opcode() == opcode);
        Some(
            rows.find(|row| row.service_action == Some(action))
                .unwrap_or(&row),
        )
    }
}

pub(super) const fn count(families: &[&[CommandInfo]]) -> usize {
    let (mut count, mut family) = (0, 0);
    while family < families.len() {
        count += families[family].len();
        family += 1;
    }
    count
}

pub(super) const fn sort_key(row: &CommandInfo) -> u32 {
    let action = match row.service_action {
        Some(action) => action as u32,
        None => 0,
    };
    (row.opcode() as u32) << 16 | action
}

/// Sorts the commands with an insertion sort at compile time.
pub(super) const fn sorted<const N: usize>(
    families: &'static [&'static [CommandInfo]],
) -> [&'static CommandInfo; N] {
    let mut table = [&families[0][0]; N];
    let (mut length, mut family) = (0, 0);
    while family < families.len() {
        let mut row = 0;
        while row < families[family].len() {
            let command = &families[family][row];
            let mut at = length;
            while at > 0 && sort_key(table[at - 1]) > sort_key(command) {
                table[at] = table[at - 1];
                at -= 1;
            }
            table[at] = command;
            length += 1;
            row += 1;
        }
        family += 1;
    }
    table
}
