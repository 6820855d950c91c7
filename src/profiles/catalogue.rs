//! Files of the catalogue, each read when it is first asked for.

use std::collections::BTreeMap;
use std::sync::{OnceLock, PoisonError, RwLock};

use serde::de::DeserializeOwned;

use super::Profile;

/// Profiles in the order of their files.
pub(super) struct Catalogue<T: 'static, const N: usize> {
    files: &'static [(&'static str, &'static str)],
    read: [OnceLock<Profile<T>>; N],
    name_of: fn(&T) -> &String,
    /// The file of each name that was looked up: a scenario asks for its model and GPU many times.
    found: RwLock<BTreeMap<String, usize>>,
}

impl<T: DeserializeOwned, const N: usize> Catalogue<T, N> {
    /// A catalogue of these files, of which there are `N`.
    pub(super) const fn new(
        files: &'static [(&'static str, &'static str)],
        name_of: fn(&T) -> &String,
    ) -> Self {
        assert!(files.len() == N, "as many files as the type says");
        let found = RwLock::new(BTreeMap::new());
        Self { files, read: [const { OnceLock::new() }; N], name_of, found }
    }

    pub(super) fn each(&'static self) -> impl Iterator<Item = &'static Profile<T>> + Clone {
        (0..N).map(|index| self.profile(index))
    }

    /// Every name and alias.
    pub(super) fn names(&'static self) -> impl Iterator<Item = &'static str> {
        self.each().flat_map(|profile| self.names_of(profile))
    }

    /// The profile of this name or alias. A whole name wins over the part behind the slash, so that no
    /// organisation hides another. Only files in which that part stands are read.
    pub(super) fn find(&'static self, name: &str) -> Option<&'static Profile<T>> {
        let found = self.found.read().unwrap_or_else(PoisonError::into_inner).get(name).copied();
        if let Some(index) = found {
            return Some(self.profile(index));
        }
        let index = self.search(name)?;
        let mut found = self.found.write().unwrap_or_else(PoisonError::into_inner);
        found.insert(name.to_owned(), index);
        Some(self.profile(index))
    }

    fn search(&self, name: &str) -> Option<usize> {
        let part = behind_slash(name);
        let told = (0..N).filter(|&index| stands_in(part, self.files[index].1));
        let told: Vec<usize> = told.collect();
        let named = |same: &dyn Fn(&str) -> bool| {
            told.iter().find(|index| self.names_of(self.profile(**index)).any(same)).copied()
        };
        named(&|other: &str| other.eq_ignore_ascii_case(name))
            .or_else(|| named(&|other: &str| behind_slash(other).eq_ignore_ascii_case(name)))
    }

    fn names_of<'a>(&self, profile: &'a Profile<T>) -> impl Iterator<Item = &'a str> {
        let aliases = profile.aliases.iter().map(String::as_str);
        std::iter::once((self.name_of)(&profile.spec).as_str()).chain(aliases)
    }

    fn profile(&self, index: usize) -> &Profile<T> {
        self.read[index].get_or_init(|| {
            let (file, text) = self.files[index];
            match toml::from_str(text) {
                Ok(profile) => profile,
                Err(error) => {
                    panic!("profile {file} is part of the binary and must be valid: {error}")
                }
            }
        })
    }
}

/// Whether a text has a word in it, in any case.
fn stands_in(word: &str, text: &str) -> bool {
    let word = word.as_bytes();
    let Some(first) = word.first() else { return true };
    let (small, large) = (first.to_ascii_lowercase(), first.to_ascii_uppercase());
    let mut places = text.as_bytes().windows(word.len());
    places.any(|place| (place[0] == small || place[0] == large) && place.eq_ignore_ascii_case(word))
}

pub(super) fn behind_slash(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}
