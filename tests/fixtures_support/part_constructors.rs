//! Area `part_constructors`: the result of each convenience constructor of a part.

use proto_events::json::{JsonText, JsonValue as Value};
use proto_events::model::{InferFields, Part, RouteView, ToolOutputView};
use taskreel_log::ports::Ports;

use super::{Case, Failure};

pub(crate) fn answer(case: &Case) -> Result<Value, Failure> {
    let args = Args(&case.input()["args"]);
    let part = construct(case.text("constructor")?, &args)?;
    // Fields left out on construction are filled in on submission.
    Ok(part.hydrated(&mut Ports::default())?.to_json().tree())
}

struct Args<'a>(&'a Value);

impl Args<'_> {
    fn json(&self, key: &str) -> JsonText {
        self.0[key].clone().into()
    }

    fn text(&self, key: &str) -> &str {
        self.0[key].as_str().unwrap_or_default()
    }

    fn optional(&self, key: &str) -> Option<&str> {
        self.0[key].as_str()
    }

    fn owned(&self, key: &str) -> Option<String> {
        self.optional(key).map(str::to_owned)
    }

    fn route(&self) -> RouteView {
        RouteView {
            reason: self.json("reason"),
            confidence: self.json("confidence"),
            metadata: self.json("metadata"),
            ..RouteView::new(self.text("route_key"))
        }
    }
}

fn construct(constructor: &str, args: &Args) -> Result<Part, Failure> {
    Ok(match constructor {
        "text" => Part::text(args.text("content")),
        "json" => Part::json(args.json("content"))?,
        "error" => {
            let retryable = args.0["retryable"] == Value::Bool(true);
            Part::error(args.text("code"), args.text("message"), retryable)
        }
        "status" => Part::status(args.text("state"), args.optional("message")),
        "tool_call" => {
            Part::tool_call_of(args.text("tool_name"), args.json("args"), args.optional("call_id"))
        }
        "tool_output" => Part::tool_output_of(ToolOutputView {
            call_id: args.owned("call_id"),
            result: args.json("result"),
            error: args.json("error"),
        }),
        "infer" => Part::infer_of(InferFields {
            prompt: args.owned("prompt"),
            user: args.owned("user"),
            output_schema: Some(args.json("output_schema")),
            metadata: Some(args.json("metadata")),
        }),
        "infer_output" => Part::infer_output(args.json("content")),
        kind @ ("route" | "decision") => Part::route_of(kind, args.route()),
        other => return Err(Failure::Unanswerable(format!("no constructor `{other}`"))),
    })
}
