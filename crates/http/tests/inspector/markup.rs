//! The tags of a page, read strictly: what is no tag of ours fails the test.

use std::collections::BTreeSet;

/// The elements of our pages.
const ELEMENTS: &[&str] = &[
    "!doctype",
    "html",
    "head",
    "meta",
    "title",
    "link",
    "script",
    "body",
    "a",
    "header",
    "nav",
    "ul",
    "ol",
    "li",
    "form",
    "label",
    "input",
    "button",
    "div",
    "span",
    "main",
    "footer",
    "p",
    "h1",
    "h2",
    "h3",
    "section",
    "strong",
    "pre",
    "code",
    "details",
    "summary",
    "fieldset",
    "legend",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "time",
    "dl",
    "dt",
    "dd",
    "svg",
    "rect",
    "text",
    "line",
    "output",
    "figure",
    "figcaption",
    "em",
    "small",
    "abbr",
    "hr",
    "br",
    "g",
    "path",
    "circle",
    "defs",
    "caption",
    "sup",
    "article",
    "h4",
    "polygon",
];

/// The attributes of our pages. None of them runs anything.
const ATTRIBUTES: &[&str] = &[
    "lang",
    "data-theme",
    "charset",
    "name",
    "content",
    "rel",
    "href",
    "type",
    "src",
    "class",
    "id",
    "tabindex",
    "aria-label",
    "aria-current",
    "aria-hidden",
    "aria-labelledby",
    "aria-disabled",
    "aria-pressed",
    "role",
    "action",
    "for",
    "placeholder",
    "autocomplete",
    "spellcheck",
    "value",
    "checked",
    "open",
    "scope",
    "datetime",
    "title",
    "min",
    "max",
    "viewbox",
    "width",
    "height",
    "x",
    "y",
    "x1",
    "x2",
    "y1",
    "y2",
    "rx",
    "text-anchor",
    "hidden",
    "data-key",
    "data-slider",
    "data-slow",
    "data-follow",
    "data-base",
    "data-next",
    "data-pause",
    "data-status",
    "data-rows",
    "colspan",
    "rowspan",
    "start",
    "method",
    "html",
    "required",
    "size",
    "inputmode",
    "points",
    "cx",
    "cy",
    "r",
    "d",
    "fill",
    "stroke",
    "stroke-opacity",
    "stroke-dasharray",
    "font-family",
    "font-size",
    "xml:space",
];

/// A tag with its attributes.
#[derive(Debug)]
pub(crate) struct Tag {
    pub(crate) name: String,
    pub(crate) attributes: Vec<(String, String)>,
}

/// Returns the tags of a page and its text.
///
/// # Panics
/// If an element or an attribute is none of ours, or anything is not well formed.
pub(crate) fn tags(page: &str) -> (Vec<Tag>, String) {
    let (mut tags, mut text) = (Vec::new(), String::new());
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let end = tag_end(rest);
        let inside = &rest[..end];
        rest = &rest[end + 1..];
        if let Some(name) = inside.strip_prefix('/') {
            assert!(ELEMENTS.contains(&name), "</{name}>");
            continue;
        }
        tags.push(tag(inside.trim_end_matches('/')));
    }
    text.push_str(rest);
    assert!(!text.contains('>'), "a `>` stands alone: {}", around(&text, '>'));
    (tags, text)
}

fn around(text: &str, letter: char) -> String {
    let at = text.find(letter).unwrap_or(0);
    text.chars().skip(text[..at].chars().count().saturating_sub(40)).take(80).collect()
}

/// Returns the end of a tag: the first `>` outside of quotes.
fn tag_end(rest: &str) -> usize {
    let mut is_quoted = false;
    for (at, letter) in rest.char_indices() {
        match letter {
            '"' => is_quoted = !is_quoted,
            '>' if !is_quoted => return at,
            '<' if !is_quoted => break,
            _ => {}
        }
    }
    panic!("a tag without an end: {}", rest.chars().take(80).collect::<String>());
}

fn tag(inside: &str) -> Tag {
    let (name, mut rest) = inside.split_once([' ', '\n']).unwrap_or((inside, ""));
    assert!(ELEMENTS.contains(&name), "<{inside}>");
    let mut attributes = Vec::new();
    while !rest.trim().is_empty() {
        rest = rest.trim_start();
        let end = rest.find(['=', ' ', '\n']).unwrap_or(rest.len());
        let attribute = rest[..end].to_lowercase();
        assert!(ATTRIBUTES.contains(&attribute.as_str()), "the attribute {attribute} in <{inside}>");
        rest = &rest[end..];
        let value = match rest.strip_prefix("=\"") {
            None => String::new(),
            Some(quoted) => {
                let end = quoted.find('"').unwrap_or_else(|| panic!("a value without an end in <{inside}>"));
                rest = &quoted[end + 1..];
                unescaped(&quoted[..end])
            }
        };
        attributes.push((attribute, value));
    }
    Tag { name: name.to_owned(), attributes }
}

pub(crate) fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&amp;", "&")
}

/// Checks that a page runs and loads nothing that is not its own, and returns its tags.
pub(crate) fn harmless(place: &str, page: &str) -> Vec<Tag> {
    let (tags, text) = tags(page);
    let hidden = text.chars().find(
        |letter| matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{1b}' | '\u{0}'),
    );
    assert_eq!(hidden, None, "{place} has a character that nobody sees");
    for tag in &tags {
        for (name, value) in &tag.attributes {
            let leads = matches!(name.as_str(), "href" | "src" | "action" | "data-follow");
            let is_own = value.starts_with("/inspect") || value.starts_with('#');
            assert!(!leads || is_own, "{place} leads to {value}");
        }
        let is_script = tag.name == "script";
        assert!(
            !is_script || tag.attributes.iter().any(|(name, _)| name == "src"),
            "{place} has a script inside"
        );
    }
    tags
}

/// Returns the addresses to which a page leads, and the names of its places.
pub(crate) fn links_of(tags: &[Tag]) -> (Vec<String>, BTreeSet<String>) {
    let all = || tags.iter().flat_map(|tag| &tag.attributes);
    let links = all().filter(|(name, _)| matches!(name.as_str(), "href" | "src" | "action"));
    let ids = all().filter(|(name, _)| name == "id");
    (links.map(|(_, value)| value.clone()).collect(), ids.map(|(_, value)| value.clone()).collect())
}
