use serde::Deserialize;
use taskreel::{JsonSchema, System};

#[derive(Deserialize, JsonSchema)]
struct Ask {
    city: String,
}

struct Weather;

fn forecast(_ask: Ask) -> Result<Weather, std::io::Error> {
    Ok(Weather)
}

fn main() {
    let _ = System::builder("log").tool("forecast", "Weather for one city", forecast);
    taskreel::tool::why_not::plain_fn(&forecast);
}
