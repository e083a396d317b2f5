//! The rule for runs that reach a limit of their budget.

/// The rule for a run whose next step would exceed its budget, see [`Builder::on_budget`](crate::Builder::on_budget).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BudgetStop {
    /// The task fails.
    #[default]
    Fail,
    /// The task waits as it is until a person raises the budget or ends it.
    WaitForPerson,
}
