use taskreel::{JsonSchema, System};

#[derive(JsonSchema)]
struct Ask {
    city: String,
}

async fn forecast(ask: Ask) -> Result<String, std::io::Error> {
    Ok(ask.city)
}

fn main() {
    let _ = System::builder("log").tool("forecast", "Weather for one city", forecast);
    taskreel::tool::why_not::async_fn(&forecast);
}
