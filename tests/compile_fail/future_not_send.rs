use std::rc::Rc;

use serde::Deserialize;
use taskreel::{JsonSchema, System};

#[derive(Deserialize, JsonSchema)]
struct Ask {
    city: String,
}

async fn forecast(ask: Ask) -> Result<String, std::io::Error> {
    let here = Rc::new(ask.city);
    std::future::ready(()).await;
    Ok(here.to_string())
}

fn main() {
    let _ = System::builder("log").tool("forecast", "Weather for one city", forecast);
    taskreel::tool::why_not::async_fn(&forecast);
}
