//! A vector that grows in chunks, without copying or doubling.

/// Entries of one chunk.
const CHUNK: usize = 1 << 14;

/// A vector in chunks.
#[derive(Debug)]
pub(crate) struct Chunked<T> {
    chunks: Vec<Vec<T>>,
}

impl<T> Default for Chunked<T> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

impl<T: Copy> Chunked<T> {
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
