//! Compares the path of a READ in the crate's documentation with the code.

use std::collections::BTreeMap;
use std::path::Path;

/// Returns the rows of the table: the file, and each function with whether the shell calls it.
fn documented() -> Vec<(String, Vec<(String, bool)>)> {
    let text = include_str!("../../src/lib.rs");
    let rows = text.lines().filter_map(|line| line.strip_prefix("//! | `"));
    rows.filter(|row| row.contains(".rs` |"))
        .map(|row| {
            let (file, functions) = row.split_once("` | ").expect("two columns");
            let mut listed = Vec::new();
            let mut from_shell = false;
            for word in functions.split_whitespace() {
                match word
                    .strip_prefix('`')
                    .and_then(|name| name.strip_suffix('`'))
                {
                    Some(name) => {
                        listed.push((name.to_owned(), from_shell));
                        from_shell = false;
                    }
                    None => from_shell = word == "⇒",
                }
            }
            (file.to_owned(), listed)
        })
        .collect()
}

/// Returns the body of a function from its opening to its closing brace.
fn body(source: &str, function: &str) -> Option<String> {
    let begin = source.find(&format!("fn {function}("))?;
    let open = begin + source[begin..].find('{')?;
    let mut depth = 0;
    let end = source[open..].find(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        depth == 0
    })?;
    Some(source[open..=open + end].to_owned())
}

fn calls(body: &str, function: &str) -> bool {
    let calls_of = [format!("{function}("), format!("{function})(")];
    let code = body
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let code: Vec<&str> = code.collect();
    calls_of
        .iter()
        .any(|call| code.iter().any(|line| line.contains(call)))
}

#[test]
fn every_function_of_the_path_of_a_read_is_called_by_one_before_it() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("crates/");
    let mut before: Vec<String> = Vec::new();
    for (file, functions) in documented() {
        let source = std::fs::read_to_string(crates.join(&file)).expect(&file);
        for (function, from_shell) in functions {
            let body = body(&source, &function);
            let body = body.unwrap_or_else(|| panic!("{file} has no function {function}"));
            let called = before.iter().any(|caller| calls(caller, &function));
            assert!(
                before.is_empty() || from_shell || called,
                "{file}: {function} is called by no function before it"
            );
            before.push(body);
        }
    }
    assert!(before.len() >= 15, "{} functions", before.len());
}

#[test]
fn the_path_of_a_read_enters_at_most_eight_files_and_none_more_than_twice() {
    let mut entered: BTreeMap<String, u32> = BTreeMap::new();
    for (file, _) in documented() {
        *entered.entry(file).or_default() += 1;
    }
    assert!(entered.len() <= 8, "{entered:?}");
    assert!(entered.values().all(|times| *times <= 2), "{entered:?}");
}
