//! Counters as typed structs: each part of the member has its own, and shows it in the status.

use std::collections::BTreeMap;

/// Makes a struct of counters. A field's name is the name in `ringway status --json`.
macro_rules! counters {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $field:ident,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default)]
        pub(in crate::member) struct $name {
            $($(#[$doc])* pub(in crate::member) $field: u64,)+
        }

        impl $name {
            /// Adds what has been counted, by name.
            pub(in crate::member) fn show(&self, shown: &mut std::collections::BTreeMap<String, u64>) {
                $($crate::member::counters::show(shown, stringify!($field), self.$field);)+
            }
        }
    };
}

pub(super) use counters;

/// Adds a counter unless it is zero: what has not happened is not listed.
pub(super) fn show(shown: &mut BTreeMap<String, u64>, name: &str, count: u64) {
    if count > 0 {
        shown.insert(name.to_owned(), count);
    }
}
