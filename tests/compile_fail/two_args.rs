use taskreel::System;

fn add(a: i64, b: i64) -> Result<i64, std::io::Error> {
    Ok(a + b)
}

fn main() {
    let _ = System::builder("log").tool("add", "Adds", add);
    taskreel::tool::why_not::plain_fn(&add);
}
