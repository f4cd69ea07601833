//! Macros for enums with named variants, and for validated texts.

/// Declares an enum of names, as in `Read = "read"`, with a list of its variants in order, and the name of each.
#[macro_export]
macro_rules! named_enum {
    (
        $(#[$attribute:meta])*
        $visible:vis enum $type:ident {
            $($(#[$about:meta])* $variant:ident = $name:literal,)+
        }
    ) => {
        $(#[$attribute])*
        $visible enum $type {
            $($(#[$about])* $variant,)+
        }

        impl $type {
            /// All variants, in the order of the declaration.
            $visible const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];
            /// The names, in the same order.
            $visible const NAMES: [&'static str; [$($name),+].len()] = [$($name),+];

            /// Returns the name.
            #[must_use]
            $visible const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Returns the variant of a name.
            #[must_use]
            $visible fn parse(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|known| known.name() == name)
            }
        }
    };
}

/// Declares the type that represents a kind of record.
macro_rules! record_type {
    ($type:ident is $kind:ident) => {
        /// The kind of record.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type {}

        impl $crate::record::RecordType for $type {
            const KIND: $crate::record::RecordKind = $crate::record::RecordKind::$kind;
        }
    };
}

/// Gives text types access to the text, and `Display`.
macro_rules! texts {
    ($($type:ident),+) => {$(
        impl $type {
            /// Returns the text.
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

        impl From<$type> for String {
            fn from(text: $type) -> Self {
                text.0
            }
        }
    )+};
}

/// Keeps the content of types out of logs: `Debug` prints the type name only.
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

/// Deserializes types by their `parse`, for settings, bodies and arguments.
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
