use serde::Deserialize;
use taskreel::tool::ToolContext;
use taskreel::{JsonSchema, System};

#[derive(Deserialize, JsonSchema)]
struct Ask {
    city: String,
}

async fn forecast(ask: Ask, _cx: ToolContext) -> Result<String, std::io::Error> {
    Ok(ask.city)
}

fn main() {
    let _ = System::builder("log").tool("forecast", "Weather for one city", forecast);
    taskreel::tool::why_not::async_fn_with_context(&forecast);
}
