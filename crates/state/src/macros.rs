//! The states of structures and enumerations. Each macro takes its type apart without `..`, so that
//! a field or variant that it does not name is an error of the compiler.

/// The [`State`](crate::State) of a structure that stands in place, by the names of its fields.
///
/// After the fields that are restored in place: `anew`, those that are made anew, because the
/// machine's shape does not give their length; `optional`, those that the machine's shape has or
/// has not; `sparse`, arrays most of which are as new; and `built`, what the machine's description
/// gives or what only makes things fast, none of which is saved.
#[macro_export]
macro_rules! state {
    ($type:ident { $($rest:tt)* } $($more:tt)*) => {
        $crate::state!([] $type { $($rest)* } $($more)*);
    };
    ([$($generics:tt)*] $type:ty { $($field:ident),* $(,)? }
        $(anew { $($anew:ident),* $(,)? })?
        $(optional { $($optional:ident),* $(,)? })?
        $(sparse { $($sparse:ident),* $(,)? })?
        $(built { $($built:ident),* $(,)? })?
    ) => {
        impl<$($generics)*> $crate::State for $type {
            fn save(&self, to: &mut $crate::Saver<'_>) {
                let Self {
                    $($field,)* $($($anew,)*)? $($($optional,)*)? $($($sparse,)*)? $($($built: _,)*)?
                } = self;
                $($crate::State::save($field, to);)*
                $($($crate::State::save($anew, to);)*)?
                $($($crate::save_optional($optional, to);)*)?
                $($($crate::save_sparse($sparse, to);)*)?
            }

            fn restore(&mut self, from: &mut $crate::Restorer<'_>) -> Result<(), $crate::Damaged> {
                let Self {
                    $($field,)* $($($anew,)*)? $($($optional,)*)? $($($sparse,)*)? $($($built: _,)*)?
                } = self;
                $($crate::State::restore($field, from)?;)*
                $($(*$anew = $crate::Value::load(from)?;)*)?
                $($($crate::restore_optional($optional, from)?;)*)?
                $($($crate::restore_sparse($sparse, from)?;)*)?
                Ok(())
            }
        }
    };
}

/// The [`Value`](crate::Value) of a structure, by the names of its fields, or of a `tuple` of one.
#[macro_export]
macro_rules! value {
    (tuple $type:ident) => {
        impl $crate::State for $type {
            fn save(&self, to: &mut $crate::Saver<'_>) {
                let Self(inner) = self;
                $crate::State::save(inner, to);
            }

            fn restore(&mut self, from: &mut $crate::Restorer<'_>) -> Result<(), $crate::Damaged> {
                let Self(inner) = self;
                $crate::State::restore(inner, from)
            }
        }

        impl $crate::Value for $type {
            fn load(from: &mut $crate::Restorer<'_>) -> Result<Self, $crate::Damaged> {
                Ok(Self($crate::Value::load(from)?))
            }
        }
    };
    ($type:ident { $($field:ident),* $(,)? }) => {
        $crate::value!([] $type { $($field),* });
    };
    ([$($generics:tt)*] $type:ty { $($field:ident),* $(,)? }) => {
        impl<$($generics)*> $crate::State for $type {
            fn save(&self, to: &mut $crate::Saver<'_>) {
                let Self { $($field),* } = self;
                $($crate::State::save($field, to);)*
            }

            fn restore(&mut self, from: &mut $crate::Restorer<'_>) -> Result<(), $crate::Damaged> {
                *self = $crate::Value::load(from)?;
                Ok(())
            }
        }

        impl<$($generics)*> $crate::Value for $type {
            fn load(from: &mut $crate::Restorer<'_>) -> Result<Self, $crate::Damaged> {
                Ok(Self { $($field: $crate::Value::load(from)?),* })
            }
        }
    };
}

/// The [`Value`](crate::Value) of an enumeration, by its variants with a name for each value in
/// them.
#[macro_export]
macro_rules! value_enum {
    ($type:ident { $($variant:ident $(($($value:ident),*))? $({ $($field:ident),* })?),* $(,)? }) => {
        const _: () = {
            #[repr(u8)]
            enum Tag { $($variant),* }

            impl $crate::State for $type {
                fn save(&self, to: &mut $crate::Saver<'_>) {
                    match self {
                        $(Self::$variant $(($($value),*))? $({ $($field),* })? => {
                            $crate::State::save(&(Tag::$variant as u8), to);
                            $($($crate::State::save($value, to);)*)?
                            $($($crate::State::save($field, to);)*)?
                        })*
                    }
                }

                fn restore(
                    &mut self,
                    from: &mut $crate::Restorer<'_>,
                ) -> Result<(), $crate::Damaged> {
                    *self = $crate::Value::load(from)?;
                    Ok(())
                }
            }

            impl $crate::Value for $type {
                fn load(from: &mut $crate::Restorer<'_>) -> Result<Self, $crate::Damaged> {
                    let tag = <u8 as $crate::Value>::load(from)?;
                    $(if tag == Tag::$variant as u8 {
                        $($(let $value = $crate::Value::load(from)?;)*)?
                        $($(let $field = $crate::Value::load(from)?;)*)?
                        return Ok(Self::$variant $(($($value),*))? $({ $($field),* })?);
                    })*
                    Err($crate::Damaged("holds a case that does not exist"))
                }
            }
        };
    };
}

/// The [`Value`](crate::Value) of a structure that refers to what a state does not hold: the one
/// that was [given](crate::Restorer::give), with the state that was saved.
#[macro_export]
macro_rules! value_like_given {
    ($type:ty) => {
        impl $crate::Value for $type {
            fn load(from: &mut $crate::Restorer<'_>) -> Result<Self, $crate::Damaged> {
                let mut value = from.given::<Self>()?;
                $crate::State::restore(&mut value, from)?;
                Ok(value)
            }
        }
    };
}
