//! Prices of models, and what calls cost: whole numbers, so that sums are exact.

use std::collections::BTreeMap;
use std::fmt;

use crate::call::outcome::TokenUsage;

/// The price of a model, in millionths of the currency's unit: 3 dollars for a million tokens are 3,000,000.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Price {
    /// The price of a million tokens that are sent to the model.
    pub input_per_million: u64,
    /// The price of a million tokens that the model generates.
    pub output_per_million: u64,
    /// The currency, such as `USD`.
    pub currency: String,
}

/// The longest name of a currency, in bytes.
pub const CURRENCY_BYTES_MAX: usize = 16;

impl Price {
    /// Returns what this usage costs.
    pub fn cost(&self, usage: TokenUsage) -> Cost {
        let of = |tokens: u64, price: u64| u128::from(tokens).saturating_mul(u128::from(price));
        let input = of(usage.input_tokens, self.input_per_million);
        Cost(input.saturating_add(of(usage.output_tokens, self.output_per_million)))
    }

    /// Whether the currency has a name that can be printed.
    pub fn is_named(&self) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric();
        (1..=CURRENCY_BYTES_MAX).contains(&self.currency.len()) && self.currency.bytes().all(is_plain)
    }
}

/// A sum of money in one currency, in 10⁻¹² of its unit: tokens by a price of a million tokens in millionths have no
/// rest. Printed as a decimal number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost(pub u128);

/// The parts of a unit.
const PARTS: u128 = 1_000_000_000_000;

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = format!("{:012}", self.0 % PARTS);
        let parts = parts.trim_end_matches('0');
        write!(f, "{}", self.0 / PARTS)?;
        if parts.is_empty() { Ok(()) } else { write!(f, ".{parts}") }
    }
}

/// Sums of money, by currency.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Costs(BTreeMap<String, Cost>);

impl Costs {
    /// Adds the cost of a usage at a price; nothing if either is unknown.
    pub fn add(&mut self, price: Option<&Price>, usage: Option<TokenUsage>) {
        let (Some(price), Some(usage)) = (price, usage) else { return };
        let sum = match self.0.get_mut(&price.currency) {
            Some(sum) => sum,
            None => self.0.entry(price.currency.clone()).or_default(),
        };
        sum.0 = sum.0.saturating_add(price.cost(usage).0);
    }

    /// Whether no price is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the sums, by currency.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Cost)> {
        self.0.iter().map(|(currency, cost)| (currency.as_str(), *cost))
    }
}

/// Prints the sums with their currencies, separated by commas.
impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (currency, cost)) in self.iter().enumerate() {
            let before = if at == 0 { "" } else { ", " };
            write!(f, "{before}{cost} {currency}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(input_per_million: u64, output_per_million: u64) -> Price {
        Price { input_per_million, output_per_million, currency: "USD".to_owned() }
    }

    fn usage(input_tokens: u64, output_tokens: u64) -> TokenUsage {
        TokenUsage { input_tokens, output_tokens }
    }

    #[test]
    fn costs_are_exact_and_are_summed_by_currency() {
        let mut costs = Costs::default();
        costs.add(Some(&price(3_000_000, 15_000_000)), Some(usage(1_000, 10)));
        assert_eq!(costs.to_string(), "0.00315 USD");
        // A ten-thousandth of a millionth: a tenth of a cent for a million tokens.
        costs.add(Some(&price(1_000, 0)), Some(usage(1, 0)));
        assert_eq!(costs.to_string(), "0.003150001 USD");
        costs.add(None, Some(usage(9, 9)));
        costs.add(Some(&price(1, 1)), None);
        costs.add(
            Some(&Price { currency: "EUR".to_owned(), ..price(2_000_000, 0) }),
            Some(usage(1_000_000, 0)),
        );
        assert_eq!(costs.to_string(), "2 EUR, 0.003150001 USD");
        costs.add(Some(&price(u64::MAX, u64::MAX)), Some(usage(u64::MAX, u64::MAX)));
        assert!(costs.iter().count() == 2, "a sum beyond all money does not panic");
    }

    #[test]
    fn a_currency_has_a_short_plain_name() {
        let named = |currency: &str| Price { currency: currency.to_owned(), ..price(1, 1) }.is_named();
        assert!(named("USD") && named("credits"));
        for wrong in ["", "U S D", "€", "a name that is too long"] {
            assert!(!named(wrong), "{wrong}");
        }
    }
}
