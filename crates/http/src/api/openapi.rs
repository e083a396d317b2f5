//! The `OpenAPI` document, made from the table of routes and the tables of fields in the log's crate.

use std::collections::BTreeSet;

use proto_events::json::{JsonText, JsonValue};
use taskreel_log::documents::{known, schema_of, value_schema};
use utoipa::Number;
use utoipa::openapi::path::{HttpMethod, OperationBuilder, Parameter, ParameterBuilder, ParameterIn, Paths};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{
    AdditionalProperties, AnyOfBuilder, ArrayBuilder, Components, ComponentsBuilder, ObjectBuilder, Schema,
    SchemaFormat, SchemaType, Type,
};
use utoipa::openapi::{
    Content, InfoBuilder, OpenApiBuilder, Ref, RefOr, Required, Response, ResponseBuilder,
};

use crate::api::control::KEY_BYTES_MAX;
use crate::api::routes::{Answer, ApiOperation, ApiRoute, Param, ParameterType, ROUTES};
use crate::auth::caller::Scope;

/// The place of the handler in the document's paths.
const MOUNTED: &str = "/api";

/// The media type of JSON.
pub(crate) const JSON: &str = "application/json";

/// The media type of lines of JSON.
pub(crate) const LINES: &str = "application/x-ndjson";

/// The media type of server-sent events.
pub(crate) const EVENTS: &str = "text/event-stream";

/// The statuses of requests that were not carried out, each with its meaning.
const REFUSED: &[(&str, &str)] = &[
    ("400", "The request means nothing; nothing was done."),
    ("401", "The credentials are missing or wrong."),
    ("403", "The caller may not do this."),
    ("404", "There is no such thing."),
    ("405", "The path does not take the method."),
    ("409", "The request contradicts what is there."),
    ("413", "The body is too large."),
    ("415", "The body is not JSON."),
    ("422", "There is no such answer."),
    ("429", "Too many others ask; try again later."),
    ("500", "The server failed."),
    ("503", "The log cannot be read or written at this moment."),
];

/// Returns the document.
pub(crate) fn document() -> JsonText {
    let mut paths = Paths::new();
    for route in ROUTES {
        let method = if route.method == "GET" { HttpMethod::Get } else { HttpMethod::Post };
        paths.add_path_operation(format!("{MOUNTED}{}", route.path), vec![method], operation(route));
    }
    let info = InfoBuilder::new()
        .title("taskreel")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "The live API of taskreel: tasks, sessions, events and the log itself, and control over them.",
        ))
        .build();
    let document = OpenApiBuilder::new().info(info).paths(paths).components(Some(components())).build();
    JsonText::of_model(&document)
}

fn operation(route: &ApiRoute) -> OperationBuilder {
    let scope = match route.scope {
        Scope::Read => "read",
        Scope::Run => "run",
        Scope::Control => "control",
    };
    let about = format!("{} Needs the scope `{scope}`.", route.about);
    let mut operation = OperationBuilder::new().operation_id(Some(name_of(route))).description(Some(about));
    for piece in route.path.split('/').filter_map(|piece| piece.strip_prefix('{')?.strip_suffix('}')) {
        let parameter = ParameterBuilder::new()
            .name(piece)
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .schema(Some(ObjectBuilder::new().schema_type(SchemaType::new(Type::String)).build()));
        operation = operation.parameter(parameter);
    }
    for param in route.params {
        operation = operation.parameter(parameter(param));
    }
    for (name, form, about) in headers(route.operation) {
        let parameter = ParameterBuilder::new()
            .name(*name)
            .parameter_in(ParameterIn::Header)
            .required(Required::False)
            .description(Some(*about))
            .schema(Some(
                ObjectBuilder::new()
                    .schema_type(SchemaType::new(Type::String))
                    .max_length(Some(KEY_BYTES_MAX))
                    .pattern(Some(*form))
                    .build(),
            ));
        operation = operation.parameter(parameter);
    }
    if let Some(body) = route.body {
        let body = RequestBodyBuilder::new()
            .content(JSON, Content::new(Some(typed(body))))
            .required(Some(Required::True))
            .build();
        operation = operation.request_body(Some(body));
    }
    operation = operation.response("200", answer(route.answer));
    for (status, about) in REFUSED {
        let refused = ResponseBuilder::new()
            .description(*about)
            .content(JSON, Content::new(Some(typed("error"))))
            .build();
        operation = operation.response(*status, refused);
    }
    operation
}

/// Returns the headers that an operation takes, with their forms.
fn headers(operation: ApiOperation) -> &'static [(&'static str, &'static str, &'static str)] {
    match operation {
        ApiOperation::Live => &[("last-event-id", "^[0-9]+$", "Resumes after the event at this position.")],
        ApiOperation::Submit | ApiOperation::Control(_) => &[(
            "idempotency-key",
            // A space at an end of a header's value does not belong to it, and `~` begins the ids of the system's own commands.
            "^[!-}]([ -~]*[!-~])?$",
            "The same request of the same caller under the same key is carried out once.",
        )],
        _ => &[],
    }
}

/// Returns the name of a route: its method and the segments of its path.
fn name_of(route: &ApiRoute) -> String {
    let words = route.path.split(['/', '.']).filter(|word| !word.is_empty() && !word.starts_with('{'));
    let words: Vec<&str> = words.filter(|word| *word != "v1").collect();
    let of_one = if route.path.ends_with('}') { "_one" } else { "" };
    format!("{}_{}{of_one}", route.method.to_ascii_lowercase(), words.join("_"))
}

fn bound(number: u64) -> Number {
    usize::try_from(number).map_or(Number::Float(f64::INFINITY), Number::UInt)
}

fn parameter(param: &Param) -> Parameter {
    let of = |kind| ObjectBuilder::new().schema_type(SchemaType::new(kind));
    let one = match param.kind {
        ParameterType::Text => Schema::from(of(Type::String).min_length(Some(1))),
        ParameterType::Form(form) => Schema::from(of(Type::String).pattern(Some(form))),
        ParameterType::Time => {
            let times = ["date-time", "date"]
                .map(|format| of(Type::String).format(Some(SchemaFormat::Custom(format.to_owned()))).build());
            Schema::AnyOf(times.into_iter().fold(AnyOfBuilder::new(), AnyOfBuilder::item).build())
        }
        ParameterType::Number { least, most } => {
            Schema::from(of(Type::Integer).minimum(Some(bound(least))).maximum(Some(bound(most))))
        }
        ParameterType::Flag => Schema::from(of(Type::Boolean)),
        ParameterType::OneOf(known) => {
            Schema::from(of(Type::String).enum_values(Some(known.iter().copied())))
        }
    };
    let schema =
        if param.is_list { Schema::Array(ArrayBuilder::new().items(RefOr::T(one)).build()) } else { one };
    ParameterBuilder::new()
        .name(param.name)
        .parameter_in(ParameterIn::Query)
        .required(Required::False)
        .description(Some(param.about))
        .schema(Some(schema))
        .build()
}

fn answer(answer: Answer) -> Response {
    let (media, kind, about) = match answer {
        Answer::Json(kind) => (JSON, kind, "The answer."),
        Answer::Lines(kind) => (LINES, kind, "Lines of JSON; the schema is that of a line."),
        Answer::Events(kind) => (EVENTS, kind, "Server-sent events; the schema is that of their data."),
    };
    ResponseBuilder::new().description(about).content(media, Content::new(Some(typed(kind)))).build()
}

/// Returns the schema of a type: a reference where the type is a document.
fn typed(kind: &str) -> RefOr<Schema> {
    if known().any(|(name, ..)| name == kind) {
        return RefOr::Ref(Ref::from_schema_name(component(kind)));
    }
    if kind.contains('|') {
        let items = kind.split('|').fold(AnyOfBuilder::new(), |all, one| all.item(typed(one)));
        return RefOr::T(Schema::AnyOf(items.build()));
    }
    of_json(&value_schema(kind))
}

/// Returns the name of a document among the components, which may have no slash.
fn component(name: &str) -> String {
    name.replace('/', ".")
}

/// Returns the schemas of the documents that routes name.
fn components() -> Components {
    let mut named: BTreeSet<&str> = BTreeSet::from(["error"]);
    for route in ROUTES {
        let (Answer::Json(kind) | Answer::Lines(kind) | Answer::Events(kind)) = route.answer;
        named.extend(kind.split('|').chain(route.body.into_iter().flat_map(|body| body.split('|'))));
    }
    let documents = known().filter(|(name, ..)| named.contains(name));
    documents
        .fold(ComponentsBuilder::new(), |all, (name, about, form)| {
            let mut schema = of_json(&schema_of(name, about, form));
            // What a decision does not take is refused: it may be a word that was misspelt.
            if let RefOr::T(Schema::Object(object)) = &mut schema
                && name.ends_with("-request")
            {
                object.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
            }
            all.schema(component(name), schema)
        })
        .build()
}

/// Converts a schema of the tables, which use a few words of JSON Schema only.
fn of_json(schema: &JsonValue) -> RefOr<Schema> {
    let about = schema.get("description").and_then(JsonValue::as_str).map(str::to_owned);
    if let Some(any) = schema.get("anyOf").and_then(JsonValue::as_array) {
        let items = any.iter().fold(AnyOfBuilder::new(), |all, one| all.item(of_json(one)));
        return RefOr::T(Schema::AnyOf(items.description(about).build()));
    }
    if schema.get("type").and_then(JsonValue::as_str) == Some("array") {
        let items = schema.get("items").map_or_else(|| of_json(&JsonValue::Null), of_json);
        return RefOr::T(Schema::Array(ArrayBuilder::new().items(items).description(about).build()));
    }
    let kind = match schema.get("type").and_then(JsonValue::as_str) {
        Some("object") => SchemaType::new(Type::Object),
        Some("string") => SchemaType::new(Type::String),
        Some("number") => SchemaType::new(Type::Number),
        Some("integer") => SchemaType::new(Type::Integer),
        Some("boolean") => SchemaType::new(Type::Boolean),
        Some("null") => SchemaType::new(Type::Null),
        _ => SchemaType::AnyValue,
    };
    let number = |name: &str| schema.get(name).and_then(JsonValue::as_u64);
    let mut object = ObjectBuilder::new()
        .schema_type(kind)
        .description(about)
        .min_length(number("minLength").and_then(|length| usize::try_from(length).ok()))
        .max_length(number("maxLength").and_then(|length| usize::try_from(length).ok()))
        .pattern(schema.get("pattern").and_then(JsonValue::as_str))
        .minimum(number("minimum").map(bound))
        .maximum(number("maximum").map(bound));
    if let Some(only) = schema.get("const").and_then(JsonValue::as_str) {
        object = object.schema_type(SchemaType::new(Type::String)).enum_values(Some([only]));
    }
    for (name, property) in
        schema.get("properties").and_then(JsonValue::as_object).into_iter().flat_map(|all| all.iter())
    {
        object = object.property(name, of_json(property));
    }
    for name in schema.get("required").and_then(JsonValue::as_array).into_iter().flatten() {
        object = object.required(name.as_str().unwrap_or_default());
    }
    if let Some(values) = schema.get("additionalProperties") {
        object = object.additional_properties(Some(AdditionalProperties::from(of_json(values))));
    }
    RefOr::T(Schema::Object(object.build()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_in_the_document_and_nothing_else_is() {
        let document = document().tree();
        let paths = document.get("paths").and_then(JsonValue::as_object).unwrap();
        let described: BTreeSet<(String, String)> = paths
            .iter()
            .flat_map(|(path, item)| {
                let methods = item.as_object().unwrap().keys();
                methods.map(|method| (method.to_ascii_uppercase(), path.clone())).collect::<Vec<_>>()
            })
            .collect();
        let routes: BTreeSet<(String, String)> = ROUTES
            .iter()
            .map(|route| (route.method.to_owned(), format!("{MOUNTED}{}", route.path)))
            .collect();
        assert_eq!(described, routes);
        let names: BTreeSet<String> = ROUTES.iter().map(name_of).collect();
        assert_eq!(names.len(), ROUTES.len(), "two operations have the same name: {names:?}");
    }

    #[test]
    fn every_reference_leads_to_a_schema_and_no_type_is_unknown() {
        let document = document();
        let text = document.as_str();
        let tree = document.tree();
        let mut seen = 0;
        for reference in text.split("\"$ref\":\"#").skip(1) {
            let pointer = reference.split('"').next().unwrap();
            assert!(tree.pointer(pointer).is_some(), "{pointer}");
            seen += 1;
        }
        assert!(seen > ROUTES.len(), "{seen}");
        for route in ROUTES {
            let (Answer::Json(kind) | Answer::Lines(kind) | Answer::Events(kind)) = route.answer;
            for kind in kind.split('|').chain(route.body.into_iter().flat_map(|body| body.split('|'))) {
                assert_ne!(value_schema(kind), JsonValue::Bool(false), "{} names {kind}", route.path);
            }
        }
    }
}
