//! The page about a registry.

use crate::handler::respond::escaped;
use crate::registry::agents::AgentRegistration;

/// The look of the page.
const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;\
                     color:#1b1f24;background:#fff}h1{font-size:1.4rem}table{border-collapse:collapse}\
                     th,td{text-align:left;padding:.2rem 1.2rem .2rem 0;vertical-align:top}th{font-weight:600}\
                     @media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}}";

/// Returns the page with the agents that are registered.
pub(crate) fn status(agents: &[AgentRegistration]) -> String {
    let mut rows = String::new();
    for AgentRegistration { agent, silent } in agents {
        let card = &agent.card;
        let (skills, by, heard) =
            (card.skills.len().to_string(), &agent.by.name, format!("{} s ago", silent.as_secs()));
        let tags = card.tags.join(", ");
        let cells =
            [&card.name, &card.url, card.role.as_str(), &tags, &skills, &card.description, by, &heard];
        rows.push_str("<tr>");
        for cell in cells {
            for piece in ["<td>", &escaped(cell), "</td>"] {
                rows.push_str(piece);
            }
        }
        rows.push_str("</tr>");
    }
    let heads =
        ["name", "address", "role", "tags", "skills", "description", "registered by", "last heard of"];
    let heads = heads.map(|head| ["<th>", head, "</th>"].concat()).concat();
    let count = match agents.len() {
        1 => "1 agent".to_owned(),
        count => format!("{count} agents"),
    };
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>Registry · Registry Status</title><style>{STYLE}</style></head><body>\
         <h1>Registry: {count}</h1><table><tr>{heads}</tr>{rows}</table></body></html>"
    )
}
