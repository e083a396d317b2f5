//! A vector that grows chunk by chunk: no copy and no doubling while it grows.

/// Entries of one chunk.
const CHUNK: usize = 1 << 14;

/// The vector.
#[derive(Debug)]
pub(super) struct Chunked<T> {
    chunks: Vec<Vec<T>>,
}

impl<T> Default for Chunked<T> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

impl<T: Copy> Chunked<T> {
    pub(super) fn len(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    pub(super) fn push(&mut self, item: T) {
        match self.chunks.last_mut() {
            Some(last) if last.len() < CHUNK => last.push(item),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(item);
                self.chunks.push(chunk);
            }
        }
    }

    pub(super) fn get(&self, at: usize) -> Option<T> {
        self.get_ref(at).copied()
    }

    pub(super) fn get_ref(&self, at: usize) -> Option<&T> {
        self.chunks.get(at / CHUNK)?.get(at % CHUNK)
    }

    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.chunks.get_mut(at / CHUNK)?.get_mut(at % CHUNK)
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.chunks.len() * (CHUNK * size_of::<T>() + size_of::<Vec<T>>())
    }
}
