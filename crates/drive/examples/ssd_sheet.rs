//! Prints the figures of the flash presets beside those of their data sheets, which is the table of
//! `docs/concepts/drive-model.md`.
#[path = "../tests/sheet/mod.rs"]
mod sheet;

use sheet::{SHEETS, Unit};

fn main() {
    println!("| preset | load | unit | data sheet | model | error % |");
    println!("|---|---|---|---|---|---|");
    for line in SHEETS {
        let unit = match line.unit {
            Unit::Iops => "IOPS",
            Unit::MegabytesPerSecond => "MB/s",
            Unit::Microseconds => "µs, mean",
        };
        let model = line.model();
        let (printed, error) = line.sheet.map_or((String::new(), String::new()), |sheet| {
            (
                format!("{sheet:.0}"),
                format!("{:+.0}", 100.0 * (model / sheet - 1.0)),
            )
        });
        println!(
            "| `{}` | {} | {unit} | {printed} | {model:.0} | {error} |",
            line.preset, line.name
        );
    }
}
