//! Modules of the state that hold their own content, where Protolink's show that of the conversations; and the reset of an
//! agent without any module.

use proto_events::json;
use proto_events::json::JsonValue as Value;

/// Whether a report shows the shared value for a module that holds nothing of its own. Nothing but conversations is stored
/// before a case.
fn is_shared(report: &Value) -> bool {
    let is_other = ["tools", "task", "flow"].iter().any(|name| report["name"] == *name);
    let before = &report["metadata"]["before"];
    is_other && (has_items(report) || has_items(before))
}

fn has_items(report: &Value) -> bool {
    report["item_count"].as_u64().is_some_and(|items| items > 0)
}

fn emptied(report: &mut Value) {
    if !has_items(report) {
        return;
    }
    let is_flow = report["name"] == "flow";
    report["exists"] = is_flow.into();
    report["item_count"] = if is_flow { json!(0) } else { Value::Null };
    report["data"] = if is_flow && !report["data"].is_null() { json!({}) } else { Value::Null };
}

pub(super) fn applies(case: &Value) -> bool {
    case["expected"]["result"]["stores"].as_array().is_some_and(|stores| stores.iter().any(is_shared))
}

pub(super) fn change(case: &mut Value) {
    let Some(stores) = case["expected"]["result"]["stores"].as_array_mut() else { return };
    for report in stores.iter_mut().filter(|report| is_shared(report)) {
        emptied(report);
        let metadata = report.as_object_mut().and_then(|report| report.get_mut("metadata"));
        let before = metadata.and_then(Value::as_object_mut).and_then(|metadata| metadata.get_mut("before"));
        before.into_iter().for_each(emptied);
    }
}

pub(super) fn example() -> (Value, Value) {
    let report = |name: &str, exists: bool, items: Value| json!({"name": name, "exists": exists, "item_count": items, "data": null});
    let case = |tools: Value, flow: Value| json!({"expected": {"result": {"stores": [report("conversation", true, json!(2)), tools, flow]}}});
    (
        case(report("tools", true, json!(2)), report("flow", true, json!(2))),
        case(report("tools", false, Value::Null), report("flow", true, json!(0))),
    )
}

pub(super) fn wipes_without_a_module(case: &Value) -> bool {
    let is_reset = case["input"]["op"] == "reset_state" && case["input"]["enabled"].is_null();
    is_reset && !case["input"]["storage_before"].is_null() && case["expected"]["storage_after"].is_null()
}

pub(super) fn keep_all(case: &mut Value) {
    let mut kept = json!({});
    for (id, messages) in case["input"]["storage_before"].as_object().into_iter().flatten() {
        let ids = messages.as_array().into_iter().flatten().map(|message| message["id"].clone());
        kept[id.as_str()] = ids.collect::<Vec<_>>().into();
    }
    case["expected"]["storage_after"] = kept;
}

pub(super) fn kept_example() -> (Value, Value) {
    let input = json!({"op": "reset_state", "enabled": null, "storage_before": {"s": [{"id": "h0"}]}});
    let case = |after: Value| json!({"input": input, "expected": {"storage_after": after}});
    (case(Value::Null), case(json!({"s": ["h0"]})))
}
