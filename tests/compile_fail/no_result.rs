use serde::Deserialize;
use taskreel::{JsonSchema, System};

#[derive(Deserialize, JsonSchema)]
struct Ask {
    city: String,
}

async fn forecast(ask: Ask) -> String {
    ask.city
}

fn main() {
    let _ = System::builder("log").tool("forecast", "Weather for one city", forecast);
    taskreel::tool::why_not::async_fn(&forecast);
}
