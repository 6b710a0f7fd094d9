//! Enums whose values are words in JSON.

/// Defines an enum with the word of each value, which serde and `as_str` share.
macro_rules! words {
    ($(#[$attribute:meta])* pub enum $name:ident { $($(#[$about:meta])* $variant:ident = $word:tt,)* }) => {
        $(#[$attribute])*
        pub enum $name {
            $($(#[$about])* #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            /// Every value, in the order of the definition.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$variant),*];

            /// The word in requests, responses and documents.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }
    };
}
pub(crate) use words;
