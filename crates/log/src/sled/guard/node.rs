//! The pages of sled's trees as its messages write them, as far as they must be read without sled: the roots of all trees,
//! indexes, and leaves.

use crate::sled::guard::segment::varint;

/// Returns the page of the root of a tree, of the roots of all trees: a name and a number for each.
pub(crate) fn root_of(tree: &[u8], mut roots: &[u8]) -> Option<u64> {
    while !roots.is_empty() {
        let (name, root) = (take_text(&mut roots)?, take_number(&mut roots)?);
        if name == tree {
            return Some(root);
        }
    }
    None
}

/// A page of a tree: a leaf, or an index that leads to other pages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TreeNode<'a> {
    /// The page after it on its level.
    pub(crate) next: Option<u64>,
    /// Whether it is being given up, or one that it leads to.
    pub(crate) is_merging: bool,
    /// The key from which on it has the keys, and the one from which on the next page has them, if it is not empty.
    pub(crate) low: &'a [u8],
    pub(crate) high: &'a [u8],
    /// The bytes of `low` with which all its keys begin, and which are left out of them.
    prefix: usize,
    data: &'a [u8],
}

impl<'a> TreeNode<'a> {
    /// Decodes a page: the next page, a merged page, two bytes, the two keys, the kind, the number of keys, the keys, and
    /// the values or pages.
    pub(crate) fn from_page(mut page: &'a [u8]) -> Option<Self> {
        let (next, merged) = (take_number(&mut page)?, take_number(&mut page)?);
        let ([merging, prefix], rest) = page.split_first_chunk()?;
        page = rest;
        Some(Self {
            next: Some(next).filter(|next| *next != 0),
            is_merging: merged != 0 || *merging != 0,
            low: take_text(&mut page)?,
            high: take_text(&mut page)?,
            prefix: usize::from(*prefix),
            data: page,
        })
    }

    /// Returns the keys and values of a leaf.
    pub(crate) fn entries(&self) -> Option<Vec<(&'a [u8], &'a [u8])>> {
        let (0, mut rest) = (*self.data.first()?, self.data.get(1..)?) else { return None };
        let count = take_number(&mut rest)?;
        let keys: Vec<_> = (0..count).map(|_| take_text(&mut rest)).collect::<Option<_>>()?;
        keys.into_iter().map(|key| Some((key, take_text(&mut rest)?))).collect()
    }

    /// Returns the page to which an index leads for a key; of a leaf, nothing.
    #[expect(clippy::option_option, reason = "the outer one is that of damage")]
    pub(crate) fn child(&self, key: &[u8]) -> Option<Option<u64>> {
        let (kind, mut rest) = self.data.split_first()?;
        if *kind == 0 {
            return Some(None);
        }
        let key = key.strip_prefix(self.low.get(..self.prefix)?)?;
        let count = usize::try_from(take_number(&mut rest)?).ok()?;
        let mut wanted = 0;
        for number in 0..count {
            if take_text(&mut rest)? <= key {
                wanted = number;
            }
        }
        (0..=wanted).map(|_| take_number(&mut rest)).last().flatten().map(Some)
    }

    /// Returns the pages to which an index leads, in the order of their keys; of a leaf, none.
    pub(crate) fn children(&self) -> Option<Vec<u64>> {
        let (kind, mut rest) = self.data.split_first()?;
        if *kind == 0 {
            return Some(Vec::new());
        }
        let count = take_number(&mut rest)?;
        for _ in 0..count {
            take_text(&mut rest)?;
        }
        (0..count).map(|_| take_number(&mut rest)).collect()
    }
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let (value, used) = varint(bytes)?;
    *bytes = bytes.get(used..)?;
    Some(value)
}

fn take_text<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take_number(bytes)?).ok()?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(text)
}
