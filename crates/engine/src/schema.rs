//! The contract as JSON Schema: what `hakaru-engine schema` prints and
//! `schema/contract.schema.json` holds.
use hakaru_contract::{CONTRACT_VERSION, Command, Event};
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

/// One document whose `definitions` hold `Command`, `Event` and everything they are made of (JSON
/// Schema draft 7, which every editor and validator reads). A line is valid if it is one or the
/// other.
#[must_use]
pub fn contract() -> String {
    let mut generator = SchemaSettings::draft07().into_generator();
    generator.subschema_for::<Command>();
    generator.subschema_for::<Event>();
    let definitions: Value = generator.take_definitions(true).into();
    let document = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "hakaru engine contract",
        "description": format!("Contract {CONTRACT_VERSION}: one JSON value per line; Command on stdin, Event on stdout."),
        "anyOf": [{ "$ref": "#/definitions/Command" }, { "$ref": "#/definitions/Event" }],
        "definitions": definitions,
    });
    serde_json::to_string_pretty(&document).expect("a JSON value serialises")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checked_in_schema_is_what_the_types_say() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../schema/contract.schema.json"
        );
        let checked_in =
            std::fs::read_to_string(path).expect("schema/contract.schema.json is checked in");
        assert!(
            checked_in.trim_end() == contract(),
            "{path} is out of date: run `make schema`"
        );
    }
}
