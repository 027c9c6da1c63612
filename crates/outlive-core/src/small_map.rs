//! A map that is a short list until it has many entries: most runs call few operations, and there are many runs.

use std::borrow::Borrow;
use std::collections::BTreeMap;

/// How many entries a list has at most.
const FEW_MAX: usize = 8;

/// A map in order of its keys.
#[derive(Debug)]
pub(crate) enum SmallMap<K, V> {
    /// In order of the keys.
    Few(Vec<(K, V)>),
    Many(BTreeMap<K, V>),
}

impl<K, V> Default for SmallMap<K, V> {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl<K: Ord, V> SmallMap<K, V> {
    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        match self {
            Self::Few(list) => place(list, key).ok().map(|place| &list[place].1),
            Self::Many(map) => map.get(key),
        }
    }

    pub(crate) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        match self {
            Self::Few(list) => place(list, key).ok().map(|place| &mut list[place].1),
            Self::Many(map) => map.get_mut(key),
        }
    }

    /// Returns the value of a key, which is added if it is not there.
    pub(crate) fn or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        if let Self::Few(list) = self
            && list.len() == FEW_MAX
            && place(list, &key).is_err()
        {
            *self = Self::Many(std::mem::take(list).into_iter().collect());
        }
        match self {
            Self::Few(list) => {
                let place = place(list, &key).unwrap_or_else(|place| {
                    // Most lists have a single entry.
                    list.reserve_exact(usize::from(list.is_empty()));
                    list.insert(place, (key, V::default()));
                    place
                });
                &mut list[place].1
            }
            Self::Many(map) => map.entry(key).or_default(),
        }
    }

    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        match self {
            Self::Few(list) => place(list, key).ok().map(|place| list.remove(place).1),
            Self::Many(map) => map.remove(key),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Few(list) => list.len(),
            Self::Many(map) => map.len(),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let (list, map) = match self {
            Self::Few(list) => (list.as_slice(), None),
            Self::Many(map) => (&[][..], Some(map)),
        };
        list.iter().map(|(key, value)| (key, value)).chain(map.into_iter().flatten())
    }
}

/// Returns where a key is in a list, or where it would be.
fn place<K: Borrow<Q>, V, Q: Ord + ?Sized>(list: &[(K, V)], key: &Q) -> Result<usize, usize> {
    list.binary_search_by(|(other, _)| other.borrow().cmp(key))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::SmallMap;

    proptest! {
        #[test]
        fn small_map_does_what_a_map_does(changes in prop::collection::vec((0_u8..24, any::<bool>()), 0..80)) {
            let (mut small, mut map) = (SmallMap::<u8, u32>::default(), BTreeMap::<u8, u32>::new());
            for (nth, (key, is_added)) in changes.into_iter().enumerate() {
                if is_added {
                    *small.or_default(key) += nth as u32;
                    *map.entry(key).or_default() += nth as u32;
                } else {
                    prop_assert_eq!(small.remove(&key), map.remove(&key));
                }
                prop_assert_eq!(small.get(&key), map.get(&key));
                prop_assert_eq!(small.get_mut(&key), map.get_mut(&key));
                prop_assert_eq!(small.len(), map.len());
                prop_assert!(small.iter().eq(map.iter()));
            }
        }
    }
}
