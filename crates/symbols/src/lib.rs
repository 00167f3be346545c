//! Functions and source lines of a recorded program: from its addresses, through what it had
//! mapped, to the ELF files that stand there.
//!
//! The files are read where the program had them. One that is missing, or is no ELF file, has no
//! symbols.

mod elf;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::iter;

use elf::Elf;

/// Where in its source a program is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The file that is mapped there; empty where none is.
    pub object: String,
    /// The function, without its name's encoding; empty where the file does not say.
    pub function: String,
    /// Its first address in the program; 0 where it is not known.
    pub function_address: u64,
    /// The source file; empty where the file has no line tables.
    pub file: String,
    /// The line in it, from 1; 0 where it is not known.
    pub line: u32,
}

/// The code that a program has mapped, or had: a mapping is remembered until another takes its
/// place.
#[derive(Default)]
pub struct ProgramSymbols {
    /// By first address.
    mappings: BTreeMap<u64, Mapping>,
    /// Files read so far; `None` for those without symbols.
    files: HashMap<String, Option<Elf>>,
}

#[derive(Clone)]
struct Mapping {
    end: u64,
    /// First address and length of what was mapped at once; a part of it may be covered by now.
    whole: (u64, u64),
    object: String,
}

impl ProgramSymbols {
    /// `length_bytes` of a file's code are mapped from `address` on. What is not an absolute path,
    /// such as `[heap]`, only covers what was there.
    pub fn map_code(&mut self, address: u64, length_bytes: u64, object: &str) {
        let end = address.saturating_add(length_bytes);
        if address == end {
            return;
        }
        while let Some((&start, mapping)) = self.mappings.range(..end).next_back()
            && mapping.end > address
        {
            let Some(mapping) = self.mappings.remove(&start) else { break };
            if mapping.end > end {
                self.mappings.insert(end, mapping.clone());
            }
            if start < address {
                self.mappings.insert(start, Mapping { end: address, ..mapping });
            }
        }
        let whole = (address, length_bytes);
        self.mappings.insert(address, Mapping { end, whole, object: object.to_owned() });
    }

    /// First addresses, in the mapping that begins at `address`, of the functions called `name`, as
    /// in the source or as encoded for the linker; of a C++ or Rust function with or without its
    /// parameters.
    pub fn functions(&mut self, address: u64, name: &str) -> Vec<u64> {
        let Some((bias, elf)) = self.at(address).and_then(|(bias, _, elf)| Some((bias, elf?)))
        else {
            return Vec::new();
        };
        elf.functions_named(name).map(|address| address.wrapping_add(bias)).collect()
    }

    /// The files that names were taken from so far, with their separate debug files, in the order
    /// of their names.
    pub fn sources(&self) -> BTreeSet<String> {
        let read = self.files.iter().filter_map(|(name, elf)| Some((name, elf.as_ref()?)));
        read.flat_map(|(name, elf)| {
            let debug_file = elf.debug_file.as_ref().map(|path| path.display().to_string());
            iter::once(name.clone()).chain(debug_file)
        })
        .collect()
    }

    /// What is known of the code at `address`.
    pub fn place(&mut self, address: u64) -> Place {
        let Some((bias, object, elf)) = self.at(address) else { return Place::default() };
        let object = object.to_owned();
        let Some(elf) = elf else { return Place { object, ..Place::default() } };
        let offset = address.wrapping_sub(bias);
        let (function, function_address) = elf
            .function_at(offset)
            .map(|(name, start)| (name, start.wrapping_add(bias)))
            .unwrap_or_default();
        let (file, line) = elf.line_at(offset).unwrap_or_default();
        Place { object, function, function_address, file, line }
    }

    /// What to subtract from `address` for one of the file, the file's name, and the file.
    fn at(&mut self, address: u64) -> Option<(u64, &str, Option<&Elf>)> {
        let (_, mapping) =
            self.mappings.range(..=address).next_back().filter(|(_, one)| one.end > address)?;
        let object = mapping.object.as_str();
        if !self.files.contains_key(object) {
            let elf = object.starts_with('/').then(|| Elf::read(object.as_ref())).flatten();
            self.files.insert(object.to_owned(), elf);
        }
        let elf = self.files.get(object)?.as_ref();
        let bias = elf.map_or(0, |elf| elf.bias(mapping.whole.0, mapping.whole.1));
        Some((bias, object, elf))
    }
}
