//! The contract as JSON Schema, as printed by `hakaru-engine schema` and stored in
//! `schema/contract.schema.json`.
use hakaru_contract::{CONTRACT_VERSION, Command, Event};
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

/// Returns a JSON Schema document of draft 7, which every editor and validator supports. Its
/// `definitions` hold `Command`, `Event` and all types that they contain. A line is valid if it is
/// either a `Command` or an `Event`.
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
    fn checked_in_schema_matches_the_types() {
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
