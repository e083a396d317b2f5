//! Profiles of providers: what each of them sends and takes beyond what all servers of this API do.

use proto_events::json;
use proto_events::json::JsonText;
use reqwest::Url;

/// A provider or server whose rules are known, see [`OpenAiCompatible::profile`](crate::infer::OpenAiCompatible::profile).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Profile {
    /// `OpenAI`.
    OpenAi,
    /// Azure `OpenAI`.
    Azure,
    /// Gemini's endpoint for this API.
    Gemini,
    /// Mistral.
    Mistral,
    /// `DeepSeek`.
    DeepSeek,
    /// Kimi of Moonshot AI.
    Kimi,
    /// Groq.
    Groq,
    /// `OpenRouter`.
    OpenRouter,
    /// Ollama.
    Ollama,
    /// vLLM.
    Vllm,
    /// The server of llama.cpp.
    LlamaCpp,
    /// LM Studio.
    LmStudio,
    /// Any other server: only what all known servers take is sent.
    Other,
}

/// The rules of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rules {
    /// The name of the profile, recorded with each inference.
    pub(crate) name: &'static str,
    /// Whether `stream_options` may be sent, which asks for the tokens of a streamed answer.
    pub(crate) stream_options: bool,
    /// Whether `response_format` may be sent beside tools.
    pub(crate) format_with_tools: bool,
    /// Whether reasoning, as it came with calls, is sent back with them.
    pub(crate) returns_reasoning: bool,
    /// The most tools of a request.
    pub(crate) tools_max: Option<usize>,
}

/// The profiles with the hosts, or parts of hosts, by which they are known, the port of a server on this machine, and their rules:
/// `stream_options`, `response_format` with tools, reasoning sent back, the most tools. Sources: the references of the
/// providers, and reports of what they refuse (docs/model-servers.md).
const PROFILES: [(Profile, &[&str], Option<u16>, Rules); 13] = [
    (Profile::OpenAi, &["api.openai.com"], None, rules("openai", [true, true, false], Some(128))),
    (
        Profile::Azure,
        &[".openai.azure.com", ".services.ai.azure.com"],
        None,
        rules("azure", [true, true, false], Some(128)),
    ),
    (
        Profile::Gemini,
        &["generativelanguage.googleapis.com", "aiplatform.googleapis.com"],
        None,
        rules("gemini", [true, false, true], None),
    ),
    (Profile::Mistral, &["api.mistral.ai"], None, rules("mistral", [false, false, false], None)),
    (Profile::DeepSeek, &["api.deepseek.com"], None, rules("deepseek", [true, false, true], Some(128))),
    (
        Profile::Kimi,
        &["api.moonshot.ai", "api.moonshot.cn", "api.kimi.com"],
        None,
        rules("kimi", [true, false, true], Some(128)),
    ),
    (Profile::Groq, &["api.groq.com"], None, rules("groq", [true, false, false], Some(128))),
    (Profile::OpenRouter, &["openrouter.ai"], None, rules("openrouter", [true, false, true], None)),
    (Profile::Ollama, &[], Some(11_434), rules("ollama", [true, false, true], None)),
    (Profile::Vllm, &[], None, rules("vllm", [true, false, true], None)),
    (Profile::LlamaCpp, &[], None, rules("llama.cpp", [true, false, true], None)),
    (Profile::LmStudio, &[], Some(1_234), rules("lm-studio", [true, false, true], None)),
    (Profile::Other, &[], None, rules("other", [true, false, true], None)),
];

impl Rules {
    /// Returns the rules as an intent records them.
    pub(crate) fn described(&self) -> JsonText {
        JsonText::from(json!({
            "name": self.name,
            "stream_options": self.stream_options,
            "format_with_tools": self.format_with_tools,
            "returns_reasoning": self.returns_reasoning,
        }))
    }
}

const fn rules(name: &'static str, may: [bool; 3], tools_max: Option<usize>) -> Rules {
    let [stream_options, format_with_tools, returns_reasoning] = may;
    Rules { name, stream_options, format_with_tools, returns_reasoning, tools_max }
}

impl Profile {
    /// Returns the profile for a base URL, by its host or by the port of a server on this machine.
    pub(crate) fn for_url(url: &Url) -> Self {
        let host = url.host_str().unwrap_or_default().to_ascii_lowercase();
        let is_local = matches!(host.as_str(), "localhost" | "127.0.0.1" | "[::1]");
        let found = PROFILES.iter().find(|(_, hosts, port, _)| {
            let is_host = |known: &&str| {
                host == **known
                    || host.strip_suffix(*known).is_some_and(|rest| {
                        known.starts_with('.') || rest.ends_with('.') || rest.ends_with('-')
                    })
            };
            hosts.iter().any(is_host) || (is_local && port.is_some() && url.port() == *port)
        });
        found.map_or(Self::Other, |(profile, ..)| *profile)
    }

    /// Returns the rules of the profile.
    pub(crate) fn rules(self) -> Rules {
        let found = PROFILES.iter().find(|(profile, ..)| *profile == self);
        found.map_or(rules("other", [true, false, true], None), |(.., rules)| *rules)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_chosen_by_the_host_or_the_port_of_a_local_server() {
        for (url, profile) in [
            ("https://api.openai.com/v1", Profile::OpenAi),
            ("https://acme.openai.azure.com/openai/v1", Profile::Azure),
            ("https://generativelanguage.googleapis.com/v1beta/openai", Profile::Gemini),
            ("https://europe-west4-aiplatform.googleapis.com/v1", Profile::Gemini),
            ("https://api.mistral.ai/v1", Profile::Mistral),
            ("http://127.0.0.1:11434/v1", Profile::Ollama),
            ("http://localhost:1234/v1", Profile::LmStudio),
            ("http://10.0.0.1:1234/v1", Profile::Other),
            ("https://evilapi.openai.com.example.org/v1", Profile::Other),
            ("https://notapi.openai.com/v1", Profile::Other),
        ] {
            assert_eq!(Profile::for_url(&Url::parse(url).unwrap()), profile, "{url}");
        }
        for (profile, ..) in PROFILES {
            assert_eq!(profile.rules().name == "other", profile == Profile::Other);
        }
    }
}
