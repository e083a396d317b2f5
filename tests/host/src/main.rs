//! A host's program that prints what `serde_json` answers it, to be compared with and without taskreel.

use serde_json::{Value, json};

fn main() {
    println!("order of keys: {}", json!({"b": 1, "a": 2}));
    for text in
        ["1180591620717411303424", "1.0", "1e16", "-0.0", "0.10", "1e400", "2.638344616030823e-256", "5e-324"]
    {
        println!(
            "{text} is read as {:?}",
            serde_json::from_str::<Value>(text).map_err(|error| error.to_string())
        );
    }
    for depth in [127, 128, 129, 1_000] {
        let text = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        println!("{depth} levels are read: {}", serde_json::from_str::<Value>(&text).is_ok());
    }
    println!("1.5 as MessagePack: {:?}", rmp_serde::to_vec(&json!(1.5)).ok());
    println!("1e300 as MessagePack: {:?}", rmp_serde::to_vec(&json!(1e300)).ok());
    println!(
        "a number as a map: {:?}",
        serde_json::from_value::<std::collections::BTreeMap<String, String>>(json!(1)).is_ok()
    );
    #[cfg(feature = "with-taskreel")]
    uses_taskreel();
}

/// Uses the library, so that it is linked, and checks what it promises of its own.
#[cfg(feature = "with-taskreel")]
fn uses_taskreel() {
    let text = r#"{"z":[1180591620717411303424,1.0,1e16,-0.0],"a":1e400}"#;
    let kept = taskreel::JsonText::parse(text).expect("this is JSON");
    assert_eq!(kept.as_str(), text);
    assert_eq!(kept.tree().to_string(), text);
}
