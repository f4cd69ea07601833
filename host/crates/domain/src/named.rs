//! Declarations: enums whose variants have names, and texts that follow a rule.

/// Declares an enum of names, as in `Read = "read"`: with all its variants in the order of the declaration, and the name of each.
#[macro_export]
macro_rules! named_enum {
    (
        $(#[$attribute:meta])*
        pub enum $type:ident {
            $($(#[$about:meta])* $variant:ident = $name:literal,)+
        }
    ) => {
        $(#[$attribute])*
        pub enum $type {
            $($(#[$about])* $variant,)+
        }

        impl $type {
            /// Every one, in the order of the declaration.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];
            /// The names, in the same order.
            pub const NAMES: [&'static str; [$($name),+].len()] = [$($name),+];

            /// The name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

/// Gives types that hold a text access to it, and their `Display`.
macro_rules! texts {
    ($($type:ident),+) => {$(
        impl $type {
            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(&self.0)
            }
        }
    )+};
}

/// Keeps what types hold out of logs: their `Debug` shows the name alone.
#[macro_export]
macro_rules! opaque_debug {
    ($($type:ident),+) => {$(
        impl std::fmt::Debug for $type {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(concat!(stringify!($type), "(..)"))
            }
        }
    )+};
}

/// Reads types by their `parse` wherever a text is converted: in settings, bodies and arguments.
macro_rules! read_by_parse {
    ($($type:ident or $error:ident),+) => {$(
        impl TryFrom<String> for $type {
            type Error = $error;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                Self::parse(&text)
            }
        }

        impl std::str::FromStr for $type {
            type Err = $error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::parse(text)
            }
        }
    )+};
}
