//! Writing what a boot loader writes into a device tree: `/chosen` and the size of `/memory`
//! (Devicetree Specification 0.4, chapter 5).

use std::ops::Range;

const MAGIC: u32 = 0xd00d_feed;
const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROPERTY: u32 = 3;
const NOP: u32 = 4;
const END: u32 = 9;

struct Reader<'a> {
    bytes: &'a [u8],
}

impl Reader<'_> {
    fn word(&self, offset: usize) -> Result<u32, String> {
        let bytes = self.bytes.get(offset..offset + 4).and_then(|four| four.try_into().ok());
        bytes.map(u32::from_be_bytes).ok_or_else(|| "is a device tree that is cut off".to_owned())
    }

    fn text(&self, offset: usize) -> Result<&[u8], String> {
        let rest = self.bytes.get(offset..).ok_or("is a device tree that is cut off")?;
        let end = rest.iter().position(|&byte| byte == 0);
        Ok(&rest[..end.ok_or("is a device tree that is cut off")?])
    }
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

/// The structure block being written, with the strings that it refers to.
struct Writer {
    structure: Vec<u8>,
    strings: Vec<u8>,
}

impl Writer {
    fn word(&mut self, word: u32) {
        self.structure.extend(word.to_be_bytes());
    }

    fn pad(&mut self) {
        self.structure.resize(aligned(self.structure.len()), 0);
    }

    fn property(&mut self, name: &str, value: &[u8]) {
        let name_offset = self.strings.len() as u32;
        self.strings.extend(name.as_bytes());
        self.strings.push(0);
        self.word(PROPERTY);
        self.word(value.len() as u32);
        self.word(name_offset);
        self.structure.extend(value);
        self.pad();
    }
}

/// The tree with the command line and the place of the RAM disk in `/chosen`, and that of memory
/// in `/memory`.
///
/// # Errors
/// `tree` is not a device tree; the message says why.
pub fn with_chosen(
    tree: &[u8],
    append: Option<&str>,
    initrd: Option<(u32, u32)>,
    ram: Range<u32>,
) -> Result<Vec<u8>, String> {
    let reader = Reader { bytes: tree };
    if reader.word(0).ok() != Some(MAGIC) {
        return Err("is not a device tree blob (compile sources with dtc)".to_owned());
    }
    let total = reader.word(4)? as usize;
    if total > tree.len() {
        return Err(format!("is a device tree of {total} bytes, cut off after {}", tree.len()));
    }
    let structure = reader.word(8)? as usize;
    let strings = reader.word(12)? as usize;
    let reservations = reader.word(16)? as usize;
    let strings_length = reader.word(32)? as usize;
    let old_strings = tree
        .get(strings..strings + strings_length)
        .ok_or("is a device tree whose strings are cut off")?;
    let mut writer = Writer { structure: Vec::new(), strings: old_strings.to_vec() };
    let ours = |writer: &mut Writer| {
        if let Some(append) = append {
            let mut text = append.as_bytes().to_vec();
            text.push(0);
            writer.property("bootargs", &text);
        }
        if let Some((start, end)) = initrd {
            writer.property("linux,initrd-start", &start.to_be_bytes());
            writer.property("linux,initrd-end", &end.to_be_bytes());
        }
    };

    let mut at = structure;
    let mut path: Vec<Vec<u8>> = Vec::new();
    let mut chosen_seen = false;
    loop {
        let token = reader.word(at)?;
        at += 4;
        match token {
            BEGIN_NODE => {
                let name = reader.text(at)?.to_vec();
                writer.word(BEGIN_NODE);
                writer.structure.extend(&name);
                writer.structure.push(0);
                writer.pad();
                at += aligned(name.len() + 1);
                path.push(name);
                if path.len() == 2 && path[1] == b"chosen" {
                    chosen_seen = true;
                    ours(&mut writer);
                }
            }
            END_NODE => {
                if path.len() == 1 && !chosen_seen {
                    writer.word(BEGIN_NODE);
                    writer.structure.extend(b"chosen\0\0");
                    ours(&mut writer);
                    writer.word(END_NODE);
                }
                path.pop().ok_or("is a device tree with one end of a node too many")?;
                writer.word(END_NODE);
            }
            PROPERTY => {
                let (length, name) = (reader.word(at)? as usize, reader.word(at + 4)?);
                let value = tree
                    .get(at + 8..at + 8 + length)
                    .ok_or("is a device tree whose properties are cut off")?;
                at += 8 + aligned(length);
                let text = reader.text(strings + name as usize)?;
                let in_chosen = path.len() == 2 && path[1] == b"chosen";
                let replaced = match text {
                    b"bootargs" => append.is_some(),
                    b"linux,initrd-start" | b"linux,initrd-end" => initrd.is_some(),
                    _ => false,
                };
                if in_chosen && replaced {
                    continue;
                }
                writer.word(PROPERTY);
                writer.word(length as u32);
                writer.word(name);
                let memory =
                    path.len() == 2 && path[1].split(|&c| c == b'@').next() == Some(b"memory");
                if memory && text == b"reg" && length == 8 {
                    writer.word(ram.start);
                    writer.word(ram.len() as u32);
                } else {
                    writer.structure.extend(value);
                    writer.pad();
                }
            }
            NOP => {}
            END => break,
            other => return Err(format!("is a damaged device tree: token {other:#x}")),
        }
    }
    if !path.is_empty() {
        return Err("is a device tree whose nodes do not end".to_owned());
    }
    writer.word(END);

    let mut reserved: Vec<u8> = Vec::new();
    let mut entry = reservations;
    loop {
        let pair = tree.get(entry..entry + 16).ok_or("is a device tree that is cut off")?;
        reserved.extend(pair);
        entry += 16;
        if pair.iter().all(|&byte| byte == 0) {
            break;
        }
    }
    let header_bytes = 40;
    let structure_at = header_bytes + reserved.len();
    let strings_at = structure_at + writer.structure.len();
    let total = strings_at + writer.strings.len();
    let header = [
        MAGIC,
        total as u32,
        structure_at as u32,
        strings_at as u32,
        header_bytes as u32,
        17,
        16,
        reader.word(28)?,
        writer.strings.len() as u32,
        writer.structure.len() as u32,
    ];
    let mut out: Vec<u8> = header.iter().flat_map(|word| word.to_be_bytes()).collect();
    out.extend(reserved);
    out.extend(writer.structure);
    out.extend(writer.strings);
    Ok(out)
}
