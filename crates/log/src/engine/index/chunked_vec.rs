//! A vector that grows in chunks, without copying or doubling.

/// Entries of one chunk.
const CHUNK: usize = 1 << 14;

/// A vector in chunks.
#[derive(Debug)]
pub(crate) struct ChunkedVec<T> {
    chunks: Vec<Vec<T>>,
}

impl<T> Default for ChunkedVec<T> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

impl<T: Copy> ChunkedVec<T> {
    pub(crate) fn len(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    pub(crate) fn push(&mut self, item: T) {
        match self.chunks.last_mut() {
            Some(last) if last.len() < CHUNK => last.push(item),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(item);
                self.chunks.push(chunk);
            }
        }
    }

    /// Creates a vector of the items that these bytes hold, `N` bytes each.
    pub(crate) fn of_bytes<const N: usize>(bytes: &[u8], item: impl Fn([u8; N]) -> T) -> Self {
        let chunk = |bytes: &[u8]| {
            let mut chunk = Vec::with_capacity(CHUNK);
            chunk.extend(bytes.as_chunks::<N>().0.iter().map(|bytes| item(*bytes)));
            chunk
        };
        Self { chunks: bytes.chunks(CHUNK * N).map(chunk).collect() }
    }

    /// Returns the items in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = T> {
        self.chunks.iter().flatten().copied()
    }

    pub(crate) fn get(&self, at: usize) -> Option<T> {
        self.get_ref(at).copied()
    }

    pub(crate) fn get_ref(&self, at: usize) -> Option<&T> {
        self.chunks.get(at / CHUNK)?.get(at % CHUNK)
    }

    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.chunks.get_mut(at / CHUNK)?.get_mut(at % CHUNK)
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.chunks.len() * (CHUNK * size_of::<T>() + size_of::<Vec<T>>())
    }
}
