//! Units of constants. Each is checked when the crate is compiled; times are [`Duration`]s.
//!
//! [`Duration`]: std::time::Duration

/// Defines a number with a unit and the range that it has to be in.
macro_rules! unit {
    ($(#[$about:meta])* $name:ident, $range:expr) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
        pub(crate) struct $name(f64);

        impl $name {
            /// Does not compile for a value that is out of range.
            pub(super) const fn of(value: f64) -> $name {
                let (least, most) = $range;
                assert!(value >= least && value <= most);
                $name(value)
            }

            /// The number, in this unit.
            pub(crate) const fn get(self) -> f64 {
                self.0
            }
        }
    };
}

unit!(
    /// A part of a whole, 0 ..= 1.
    Fraction,
    (0.0, 1.0)
);
unit!(
    /// How many times as much, 1 or more.
    Factor,
    (1.0, 1e3)
);
unit!(
    /// Full datagrams; less than one is a part of one.
    Datagrams,
    (0.0, 1e6)
);
unit!(
    /// Full datagrams in a second.
    DatagramRate,
    (0.0, 1e6)
);
unit!(
    /// Round trips, as time.
    RoundTrips,
    (0.0, 1e3)
);
unit!(
    /// Datagrams ÷ s³: how fast a cubic curve bends.
    CubicGrowth,
    (0.0, 1e3)
);
