use serde::Deserialize;
use taskreel::{JsonSchema, System};

#[derive(Deserialize, JsonSchema)]
struct Ask {
    city: String,
}

struct NoCity;

async fn forecast(ask: Ask) -> Result<String, NoCity> {
    if ask.city.is_empty() { Err(NoCity) } else { Ok(ask.city) }
}

fn main() {
    let _ = System::builder("log").tool("forecast", "Weather for one city", forecast);
    taskreel::tool::why_not::async_fn(&forecast);
}
