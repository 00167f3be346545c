//! The states of numbers, text, and what contains other states.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::{Damaged, Restorer, Saver, State, Value};

/// Elements of a sparse array that are left out together.
const CHUNK: usize = 1024;

/// A [`Value`] is restored in place by making it anew.
macro_rules! restore_by_load {
    () => {
        fn restore(&mut self, from: &mut Restorer<'_>) -> Result<(), Damaged> {
            *self = Self::load(from)?;
            Ok(())
        }
    };
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl State for $number {
            #[inline]
            fn save(&self, to: &mut Saver<'_>) {
                to.put(&self.to_le_bytes());
            }
            restore_by_load!();
        }

        impl Value for $number {
            #[inline]
            fn load(from: &mut Restorer<'_>) -> Result<Self, Damaged> {
                Ok(Self::from_le_bytes(from.take()?))
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, u128, i64);

impl State for usize {
    fn save(&self, to: &mut Saver<'_>) {
        to.put_length(*self);
    }
    restore_by_load!();
}

impl Value for usize {
    fn load(from: &mut Restorer<'_>) -> Result<Self, Damaged> {
        from.length()
    }
}

impl State for bool {
    fn save(&self, to: &mut Saver<'_>) {
        to.put(&[u8::from(*self)]);
    }
    restore_by_load!();
}

impl Value for bool {
    fn load(from: &mut Restorer<'_>) -> Result<Self, Damaged> {
        Ok(u8::load(from)? != 0)
    }
}

impl State for () {
    fn save(&self, _: &mut Saver<'_>) {}
    restore_by_load!();
}

impl Value for () {
    fn load(_: &mut Restorer<'_>) -> Result<Self, Damaged> {
        Ok(())
    }
}

macro_rules! tuples {
    ($($name:ident $place:tt),*) => {
        impl<$($name: State),*> State for ($($name,)*) {
            fn save(&self, to: &mut Saver<'_>) {
                $(self.$place.save(to);)*
            }
            fn restore(&mut self, from: &mut Restorer<'_>) -> Result<(), Damaged> {
                $(self.$place.restore(from)?;)*
                Ok(())
            }
        }

        impl<$($name: Value),*> Value for ($($name,)*) {
            fn load(from: &mut Restorer<'_>) -> Result<Self, Damaged> {
                Ok(($($name::load(from)?,)*))
            }
        }
    };
}

tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);

// ---- In place, of a length that the machine's shape gives ---------------------------------------

impl<T: State> State for [T] {
    fn save(&self, to: &mut Saver<'_>) {
        to.put_length(self.len());
        for element in self {
            element.save(to);
        }
    }

    fn restore(&mut self, from: &mut Restorer<'_>) -> Result<(), Damaged> {
        from.expect_length(self.len())?;
        self.iter_mut().try_for_each(|element| element.restore(from))
    }
}

impl<T: State + ?Sized> State for Box<T> {
    fn save(&self, to: &mut Saver<'_>) {
        (**self).save(to);
    }

    fn restore(&mut self, from: &mut Restorer<'_>) -> Result<(), Damaged> {
        (**self).restore(from)
    }
}

impl<T: State, const N: usize> State for [T; N] {
    fn save(&self, to: &mut Saver<'_>) {
        for element in self {
            element.save(to);
        }
    }

    fn restore(&mut self, from: &mut Restorer<'_>) -> Result<(), Damaged> {
        self.iter_mut().try_for_each(|element| element.restore(from))
    }
}

impl<T: Value, const N: usize> Value for [T; N] {
    fn load(from: &mut Restorer<'_>) -> Result<Self, Damaged> {
        let elements = (0..N).map(|_| T::load(from)).collect::<Result<Vec<T>, _>>()?;
        elements.try_into().map_err(|_| Damaged("ends too early"))
    }
}

/// Writes an array most of which is as new: pieces where nothing was put are left out.
pub fn save_sparse<T: Value + Default + PartialEq>(elements: &[T], to: &mut Saver<'_>) {
    to.put_length(elements.len());
    let new = T::default();
    for chunk in elements.chunks(CHUNK) {
        let used = chunk.iter().any(|element| *element != new);
        used.save(to);
        if used {
            chunk.iter().for_each(|element| element.save(to));
        }
    }
}

/// Restores what [`save_sparse`] wrote. Pieces that are new and stay so are not written to, and
/// take no memory.
///
/// # Errors
/// The bytes are of something else.
pub fn restore_sparse<T: Value + Default + PartialEq>(
    elements: &mut [T],
    from: &mut Restorer<'_>,
) -> Result<(), Damaged> {
    from.expect_length(elements.len())?;
    let new = T::default();
    for chunk in elements.chunks_mut(CHUNK) {
        if bool::load(from)? {
            chunk.iter_mut().try_for_each(|element| element.restore(from))?;
        } else {
            chunk.iter_mut().filter(|element| **element != new).for_each(|one| *one = T::default());
        }
    }
    Ok(())
}

/// Writes what a machine's shape has or has not.
pub fn save_optional<T: State>(part: &Option<T>, to: &mut Saver<'_>) {
    part.is_some().save(to);
    if let Some(part) = part {
        part.save(to);
    }
}

/// Restores it.
///
/// # Errors
/// The bytes are of something else, or of a machine that has it while this one has not, or the
/// other way round.
pub fn restore_optional<T: State>(
    part: &mut Option<T>,
    from: &mut Restorer<'_>,
) -> Result<(), Damaged> {
    match (bool::load(from)?, part) {
        (true, Some(part)) => part.restore(from),
        (false, None) => Ok(()),
        _ => Err(Damaged("is of a machine with other parts")),
    }
}

// ---- Made anew ----------------------------------------------------------------------------------

impl<T: Value> State for Option<T> {
    fn save(&self, to: &mut Saver<'_>) {
        save_optional(self, to);
    }
    restore_by_load!();
}

impl<T: Value> Value for Option<T> {
    fn load(from: &mut Restorer<'_>) -> Result<Self, Damaged> {
        bool::load(from)?.then(|| T::load(from)).transpose()
    }
}

impl<T: Value, E: Value> State for Result<T, E> {
    fn save(&self, to: &mut Saver<'_>) {
        self.is_ok().save(to);
        match self {
            Ok(value) => value.save(to),
            Err(error) => error.save(to),
        }
    }
    restore_by_load!();
}

impl<T: Value, E: Value> Value for Result<T, E> {
    fn load(from: &mut Restorer<'_>) -> Result<Self, Damaged> {
        Ok(if bool::load(from)? { Ok(T::load(from)?) } else { Err(E::load(from)?) })
    }
}

impl State for String {
    fn save(&self, to: &mut Saver<'_>) {
        self.as_bytes().save(to);
    }
    restore_by_load!();
}

impl Value for String {
    fn load(from: &mut Restorer<'_>) -> Result<Self, Damaged> {
        String::from_utf8(Vec::load(from)?).map_err(|_| Damaged("holds text that is none"))
    }
}

/// One of the names that were [given](Restorer::give) as a list.
impl State for &'static str {
    fn save(&self, to: &mut Saver<'_>) {
        self.as_bytes().save(to);
    }
    restore_by_load!();
}

impl Value for &'static str {
    fn load(from: &mut Restorer<'_>) -> Result<Self, Damaged> {
        let wanted = String::load(from)?;
        let names: &'static [&'static str] = from.given()?;
        let found = names.iter().find(|name| **name == wanted).copied();
        found.ok_or(Damaged("holds a name that this machine does not have"))
    }
}

impl<T: Value> Value for Box<[T]> {
    fn load(from: &mut Restorer<'_>) -> Result<Self, Damaged> {
        Ok(Vec::load(from)?.into())
    }
}

/// A number of elements, then these. Memory grows as they come, not by their announced number.
macro_rules! collections {
    ($([$($generics:tt)*] $collection:ty, $element:ty;)*) => {$(
        impl<$($generics)*> State for $collection {
            fn save(&self, to: &mut Saver<'_>) {
                to.put_length(self.len());
                for element in self.iter() {
                    element.save(to);
                }
            }
            restore_by_load!();
        }

        impl<$($generics)*> Value for $collection {
            fn load(from: &mut Restorer<'_>) -> Result<Self, Damaged> {
                let mut elements = Vec::new();
                for _ in 0..from.length()? {
                    elements.push(<$element>::load(from)?);
                }
                Ok(elements.into_iter().collect())
            }
        }
    )*};
}

collections! {
    [T: Value] Vec<T>, T;
    [T: Value] VecDeque<T>, T;
    [T: Value + Ord] BTreeSet<T>, T;
}

impl<K: Value + Ord, V: Value> State for BTreeMap<K, V> {
    fn save(&self, to: &mut Saver<'_>) {
        to.put_length(self.len());
        for (key, value) in self {
            key.save(to);
            value.save(to);
        }
    }
    restore_by_load!();
}

impl<K: Value + Ord, V: Value> Value for BTreeMap<K, V> {
    fn load(from: &mut Restorer<'_>) -> Result<Self, Damaged> {
        Ok(Vec::<(K, V)>::load(from)?.into_iter().collect())
    }
}
