//! The text of a page, as text. Markup is escaped, and characters that nobody sees or that turn the direction of what follows
//! are named, so that a person reads what a program would. Every template prints through this.

use std::fmt::{self, Write};

use askama::filters::Escaper;

/// The escaper of the templates.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HtmlEscaper;

impl Escaper for HtmlEscaper {
    fn write_escaped_str<W: Write>(&self, mut to: W, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some((at, letter)) = rest.char_indices().find(|(_, letter)| is_special(*letter)) {
            to.write_str(rest.get(..at).unwrap_or_default())?;
            write_escaped(&mut to, letter)?;
            rest = rest.get(at + letter.len_utf8()..).unwrap_or_default();
        }
        to.write_str(rest)
    }
}

fn write_escaped(to: &mut impl Write, letter: char) -> fmt::Result {
    match letter {
        '&' => to.write_str("&amp;"),
        '<' => to.write_str("&lt;"),
        '>' => to.write_str("&gt;"),
        '"' => to.write_str("&quot;"),
        '\'' => to.write_str("&#39;"),
        hidden => write!(to, "⟨U+{:04X}⟩", u32::from(hidden)),
    }
}

fn is_special(letter: char) -> bool {
    matches!(letter, '&' | '<' | '>' | '"' | '\'') || is_hidden(letter)
}

/// Whether nobody sees a character, or it changes how those around it are shown. Line ends and tabs are shown as such; what joins
/// the letters of scripts and the parts of an emoji is left.
pub(crate) fn is_hidden(letter: char) -> bool {
    match letter {
        '\n' | '\t' => false,
        '\u{ad}'
        | '\u{61c}'
        | '\u{180e}'
        | '\u{200b}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}' => true,
        other => other.is_control(),
    }
}

/// Returns a text in which what nobody sees is named, for a script that puts it into a page as text.
pub(crate) fn visible(text: &str) -> String {
    let mut seen = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            hidden if is_hidden(hidden) => drop(write_escaped(&mut seen, hidden)),
            other => seen.push(other),
        }
    }
    seen
}

/// A value that a form gives back as it was: escaped, with no character named.
#[derive(Debug, Clone, Default)]
pub(crate) struct Value(pub(crate) String);

impl askama::filters::HtmlSafe for Value {}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '&' | '<' | '>' | '"' | '\'' => write_escaped(f, letter)?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let mut shown = String::new();
        HtmlEscaper.write_escaped_str(&mut shown, text).unwrap();
        shown
    }

    #[test]
    fn markup_is_text_and_what_nobody_sees_is_named() {
        assert_eq!(shown("<b a='1'>&\"</b>"), "&lt;b a=&#39;1&#39;&gt;&amp;&quot;&lt;/b&gt;");
        assert_eq!(shown("002\u{202e}gnp"), "002⟨U+202E⟩gnp");
        assert_eq!(shown("a\u{1b}[2J\r\n\tb\u{0}"), "a⟨U+001B⟩[2J⟨U+000D⟩\n\tb⟨U+0000⟩");
        assert_eq!(shown("\u{e0041}\u{200b}\u{feff}"), "⟨U+E0041⟩⟨U+200B⟩⟨U+FEFF⟩");
        assert_eq!(shown("Ünter 👩\u{200d}💻 می\u{200c}خواهم"), "Ünter 👩\u{200d}💻 می\u{200c}خواهم");
        assert_eq!(Value("<\u{202e}".to_owned()).to_string(), "&lt;\u{202e}");
    }
}
