//! Capabilities: the agent's rules over the capabilities that tools name, and the run's own permissions,
//! which can only narrow those rules. The check is pure and comes before a call is intended.
//!
//! The rules follow Protolink 0.6.4's `CapabilityPolicy`. A pattern is a capability's whole name, `ns.*`, or
//! `*`; the longest matching pattern decides. Over all capabilities of an action, and over policy and
//! permissions, the strongest effect wins.

use std::collections::BTreeSet;

use proto_events::json::{JsonMap, JsonObject, JsonValue as Value};

use crate::python::repr;
use crate::tools::texts::short;

/// The effect of a rule on an action that needs a capability; later variants are stronger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum PolicyEffect {
    /// The action is carried out.
    Allow,
    /// The action must be approved first.
    RequireApproval,
    /// The action is not carried out.
    Deny,
}

impl PolicyEffect {
    /// Returns Protolink's name of the effect.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::RequireApproval => "require_approval",
            Self::Deny => "deny",
        }
    }
}

/// The decision about an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CapabilityRuling {
    /// The strongest effect.
    pub(crate) effect: PolicyEffect,
    /// The capabilities that have this effect, in order.
    pub(crate) capabilities: Vec<String>,
    /// The reason, in Protolink's words.
    pub(crate) reason: String,
}

/// A rule that names no known effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Unsupported policy effect: {0}")]
pub struct PolicyEffectError(String);

/// The capability rules of an agent. Without any rule, all capabilities are allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapabilityPolicy {
    /// A pattern whose effect is null hides wider patterns, as it does in Protolink: the default holds.
    rules: Vec<(String, Option<PolicyEffect>)>,
    default: PolicyEffect,
}

impl Default for CapabilityPolicy {
    fn default() -> Self {
        Self::new()
    }
}

impl CapabilityPolicy {
    /// Creates a policy without rules, which allows everything.
    pub fn new() -> Self {
        Self { rules: Vec::new(), default: PolicyEffect::Allow }
    }

    /// Adds a rule for a capability, `ns.*` or `*`, and replaces an earlier rule for the same pattern.
    #[must_use]
    pub fn rule(self, pattern: impl Into<String>, effect: PolicyEffect) -> Self {
        self.with(pattern.into(), Some(effect))
    }

    /// Allows what the pattern covers.
    #[must_use]
    pub fn allow(self, pattern: impl Into<String>) -> Self {
        self.rule(pattern, PolicyEffect::Allow)
    }

    /// Denies what the pattern covers.
    #[must_use]
    pub fn deny(self, pattern: impl Into<String>) -> Self {
        self.rule(pattern, PolicyEffect::Deny)
    }

    /// Requires approval for what the pattern covers.
    #[must_use]
    pub fn require_approval(self, pattern: impl Into<String>) -> Self {
        self.rule(pattern, PolicyEffect::RequireApproval)
    }

    /// Sets the effect for capabilities that no rule covers; they are allowed by default.
    #[must_use]
    pub fn otherwise(mut self, effect: PolicyEffect) -> Self {
        self.default = effect;
        self
    }

    /// Reads rules as Protolink writes them: effects by name (`allow`, `deny`, `require_approval`, `ask`, …),
    /// `true` and `false`, or objects with `effect`, `decision` or `mode`.
    ///
    /// # Errors
    /// [`PolicyEffectError`] if a rule names no known effect.
    pub fn from_json(rules: &JsonObject) -> Result<Self, PolicyEffectError> {
        rules.iter().try_fold(Self::new(), |policy, (pattern, value)| {
            let effect = match value.tree() {
                Value::Null => None,
                value => Some(effect_of(&value)?),
            };
            Ok(policy.with(pattern.to_owned(), effect))
        })
    }

    fn with(mut self, pattern: String, effect: Option<PolicyEffect>) -> Self {
        match self.rules.iter_mut().find(|(known, _)| *known == pattern) {
            Some(known) => known.1 = effect,
            None => self.rules.push((pattern, effect)),
        }
        self
    }

    /// Decides about an action that needs these capabilities, in a run with these permissions.
    ///
    /// # Errors
    /// [`PolicyEffectError`] if a permission that is consulted names no known effect: unreadable permissions
    /// allow nothing.
    pub(crate) fn rule_on(
        &self,
        capabilities: &[String],
        run: &RunPermissions,
    ) -> Result<CapabilityRuling, PolicyEffectError> {
        if let Some(reason) = &run.canceled {
            return Ok(CapabilityRuling {
                effect: PolicyEffect::Deny,
                capabilities: Vec::new(),
                reason: reason.clone(),
            });
        }
        let needed: BTreeSet<&str> =
            capabilities.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
        let rulings = needed
            .into_iter()
            .map(|name| Ok((name, self.effect_on(name, run)?)))
            .collect::<Result<Vec<_>, _>>()?;
        let Some(effect) = rulings.iter().map(|(_, effect)| *effect).max() else {
            let (effect, capabilities) = (PolicyEffect::Allow, Vec::new());
            let reason = reason(effect, &capabilities);
            return Ok(CapabilityRuling { effect, capabilities, reason });
        };
        let with_it = rulings.iter().filter(|(_, its)| *its == effect);
        let capabilities: Vec<String> = with_it.map(|(name, _)| (*name).to_owned()).collect();
        let reason = reason(effect, &capabilities);
        Ok(CapabilityRuling { effect, capabilities, reason })
    }

    fn effect_on(&self, capability: &str, run: &RunPermissions) -> Result<PolicyEffect, PolicyEffectError> {
        let own = longest(self.rules.iter().map(|(pattern, effect)| (pattern.as_str(), effect)), capability);
        let own = own.and_then(|effect| *effect).unwrap_or(self.default);
        let narrowed = run.effect_on(capability)?;
        Ok(narrowed.map_or(own, |narrowed| own.max(narrowed)))
    }
}

/// The permissions in a run's context.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct RunPermissions {
    rules: JsonMap,
    default: Option<Value>,
    /// The reason why the run was canceled; a canceled run may do nothing.
    canceled: Option<String>,
}

impl RunPermissions {
    /// Reads `metadata.run_context`: its `permissions` (perhaps under `capabilities`), with `default` for all
    /// others, and whether the run is canceled.
    ///
    /// # Errors
    /// [`PolicyEffectError`] if the permissions are not an object.
    pub(crate) fn from_metadata(metadata: &JsonObject) -> Result<Self, PolicyEffectError> {
        // It is asked for before each call, and a posted context can be long.
        let context = metadata.get("run_context");
        let [canceled, reason, permissions] = context
            .map(|context| context.members(["canceled", "cancel_reason", "permissions"]))
            .unwrap_or_default();
        let canceled = canceled.is_some_and(|canceled| canceled.as_str() == "true").then(|| {
            let reason = reason.and_then(|reason| reason.to_str());
            short(reason.as_deref().filter(|why| !why.is_empty()).unwrap_or("Run was canceled"))
        });
        let mut permissions = match permissions.map(|permissions| permissions.tree()) {
            None | Some(Value::Null) => JsonMap::new(),
            Some(Value::Object(permissions)) => permissions,
            Some(other) => return Err(PolicyEffectError(short(&repr(&other)))),
        };
        let default = permissions.remove("default").filter(|default| !default.is_null());
        let rules = match permissions.remove("capabilities") {
            Some(Value::Object(rules)) => rules,
            _ => permissions,
        };
        Ok(Self { rules, default, canceled })
    }

    fn effect_on(&self, capability: &str) -> Result<Option<PolicyEffect>, PolicyEffectError> {
        let rules = self.rules.iter().map(|(pattern, value)| (pattern.as_str(), value));
        let said = longest(rules, capability).filter(|value| !value.is_null());
        said.or(self.default.as_ref()).map(effect_of).transpose()
    }
}

/// Returns the rule of the longest pattern that covers a capability.
fn longest<'a, T>(rules: impl Iterator<Item = (&'a str, T)>, capability: &str) -> Option<T> {
    let covering = rules.filter_map(|(pattern, rule)| {
        let length = match pattern {
            exact if exact == capability => usize::MAX,
            "*" => 0,
            other if capability.starts_with(other.strip_suffix('*').filter(|stem| stem.ends_with('.'))?) => {
                other.len()
            }
            _ => return None,
        };
        Some((length, rule))
    });
    covering.max_by_key(|(length, _)| *length).map(|(_, rule)| rule)
}

/// Reads an effect in any of the forms that Protolink accepts.
fn effect_of(value: &Value) -> Result<PolicyEffect, PolicyEffectError> {
    let unsupported = || PolicyEffectError(short(&repr(value)));
    match value {
        Value::Bool(true) => Ok(PolicyEffect::Allow),
        Value::Bool(false) => Ok(PolicyEffect::Deny),
        // The first of the three keys that is present decides; an object without any of them is a grant.
        Value::Object(said) => match ["effect", "decision", "mode"].iter().find_map(|key| said.get(key)) {
            None | Some(Value::Null) => Ok(PolicyEffect::Allow),
            Some(effect) => effect_of(effect),
        },
        Value::String(word) => match word.trim().to_lowercase().replace('-', "_").as_str() {
            "allow" | "allowed" => Ok(PolicyEffect::Allow),
            "deny" | "denied" => Ok(PolicyEffect::Deny),
            "approval" | "approve" | "ask" | "require_approval" => Ok(PolicyEffect::RequireApproval),
            _ => Err(unsupported()),
        },
        Value::Null | Value::Number(_) | Value::Array(_) => Err(unsupported()),
    }
}

/// Returns the reason for which a call needs approval, as the model and Protolink's clients read it.
pub(crate) fn approval_required(capabilities: &[String]) -> String {
    format!("Approval required for capabilities: {}", capabilities.join(", "))
}

/// Returns the reason for a decision, in Protolink's words.
pub(crate) fn reason(effect: PolicyEffect, capabilities: &[String]) -> String {
    if capabilities.is_empty() && effect == PolicyEffect::Allow {
        return "Action declares no protected capabilities".to_owned();
    }
    let names = capabilities.join(", ");
    match effect {
        PolicyEffect::Allow => format!("Allowed capabilities: {names}"),
        PolicyEffect::RequireApproval => approval_required(capabilities),
        PolicyEffect::Deny => format!("Denied capabilities: {names}"),
    }
}

#[cfg(test)]
mod tests {
    use proto_events::json;
    use proto_events::json::JsonText;

    use super::*;

    fn object(value: Value) -> JsonObject {
        JsonText::from(value).read().unwrap()
    }

    fn policy(rules: Value) -> CapabilityPolicy {
        CapabilityPolicy::from_json(&object(rules)).unwrap()
    }

    fn run(context: &Value) -> RunPermissions {
        RunPermissions::from_metadata(&object(json!({"run_context": context}))).unwrap()
    }

    fn says(policy: &CapabilityPolicy, names: &[&str], permissions: &Value) -> PolicyEffect {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        policy.rule_on(&names, &run(&json!({"permissions": permissions}))).unwrap().effect
    }

    #[test]
    fn the_longest_pattern_decides_and_a_namespace_is_no_prefix_of_a_word() {
        let rules =
            policy(json!({"*": "deny", "fs.*": "ask", "fs.read.*": "allow", "fs.read.secret": false}));
        for (name, effect) in [
            ("fs.read.secret", PolicyEffect::Deny),
            ("fs.read.public", PolicyEffect::Allow),
            ("fs.write", PolicyEffect::RequireApproval),
            ("fsx", PolicyEffect::Deny),
            ("fs", PolicyEffect::Deny),
            ("fs.", PolicyEffect::RequireApproval),
        ] {
            assert_eq!(says(&rules, &[name], &json!({})), effect, "{name}");
        }
        assert_eq!(says(&CapabilityPolicy::new(), &["any"], &json!({})), PolicyEffect::Allow);
        let strict = CapabilityPolicy::new().otherwise(PolicyEffect::Deny).allow("a");
        assert_eq!(says(&strict, &["a"], &json!({})), PolicyEffect::Allow);
        assert_eq!(says(&strict, &["b"], &json!({})), PolicyEffect::Deny);
        assert_eq!(
            says(&strict, &[], &json!({})),
            PolicyEffect::Allow,
            "what needs nothing is always allowed"
        );
        let hidden = policy(json!({"*": "deny", "x": null}));
        assert_eq!(says(&hidden, &["x"], &json!({})), PolicyEffect::Allow, "null leaves it to the default");
    }

    #[test]
    fn effects_have_aliases_booleans_and_objects_and_nothing_else() {
        for (value, effect) in [
            (json!("allowed"), PolicyEffect::Allow),
            (json!(" Require-Approval "), PolicyEffect::RequireApproval),
            (json!("ask"), PolicyEffect::RequireApproval),
            (json!("approve"), PolicyEffect::RequireApproval),
            (json!("approval"), PolicyEffect::RequireApproval),
            (json!("DENIED"), PolicyEffect::Deny),
            (json!(true), PolicyEffect::Allow),
            (json!(false), PolicyEffect::Deny),
            (json!({"mode": "deny"}), PolicyEffect::Deny),
            (json!({"decision": {"effect": "ask"}}), PolicyEffect::RequireApproval),
            (json!({"effect": null, "mode": "deny"}), PolicyEffect::Allow),
            (json!({"path": "/tmp"}), PolicyEffect::Allow),
        ] {
            assert_eq!(effect_of(&value).unwrap(), effect, "{value}");
        }
        for (value, told) in [(json!("maybe"), "'maybe'"), (json!(1), "1"), (json!(["deny"]), "['deny']")] {
            let error = effect_of(&value).unwrap_err();
            assert_eq!(error.to_string(), format!("Unsupported policy effect: {told}"));
        }
    }

    #[test]
    fn permissions_of_a_run_narrow_and_never_widen() {
        let ask = CapabilityPolicy::new().require_approval("money.*");
        for (permissions, effect) in [
            (json!({"money.spend": "allow"}), PolicyEffect::RequireApproval),
            (json!({"money.spend": "deny"}), PolicyEffect::Deny),
            (json!({"capabilities": {"money.*": false}, "money.spend": true}), PolicyEffect::Deny),
            (json!({"default": "deny"}), PolicyEffect::Deny),
            (json!({"default": "deny", "money.spend": "ask"}), PolicyEffect::RequireApproval),
            (json!({"default": null}), PolicyEffect::RequireApproval),
        ] {
            assert_eq!(says(&ask, &["money.spend"], &permissions), effect, "{permissions}");
        }
        let metadata = |permissions: Value| object(json!({"run_context": {"permissions": permissions}}));
        assert!(
            RunPermissions::from_metadata(&metadata(json!(["money.spend"]))).is_err(),
            "what cannot be read allows nothing"
        );
        let odd = RunPermissions::from_metadata(&metadata(json!({"money.spend": "sure"}))).unwrap();
        assert!(ask.rule_on(&["money.spend".to_owned()], &odd).is_err());
        assert!(ask.rule_on(&["other".to_owned()], &odd).is_ok(), "it is read when it is asked");
    }

    #[test]
    fn the_strongest_effect_wins_and_names_those_that_have_it_in_order() {
        let rules = policy(json!({"b": "deny", "a": "deny", "c": "ask", "d": "allow"}));
        let ruling = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            rules.rule_on(&names, &RunPermissions::default()).unwrap().reason
        };
        assert_eq!(ruling(&["d", "c", "b", "a", "b", ""]), "Denied capabilities: a, b");
        assert_eq!(ruling(&["d", "c"]), "Approval required for capabilities: c");
        assert_eq!(ruling(&["d"]), "Allowed capabilities: d");
    }

    #[test]
    fn a_canceled_run_may_do_nothing_not_even_what_needs_no_capability() {
        let ruling = |context: Value| CapabilityPolicy::new().rule_on(&[], &run(&context)).unwrap();
        let plain = ruling(json!({"canceled": true, "cancel_reason": ""}));
        assert_eq!((plain.effect, plain.reason.as_str()), (PolicyEffect::Deny, "Run was canceled"));
        assert_eq!(ruling(json!({"canceled": true, "cancel_reason": "too late"})).reason, "too late");
        assert_eq!(ruling(json!({"canceled": false})).effect, PolicyEffect::Allow);
    }
}
