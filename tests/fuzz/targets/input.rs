//! Reads decisions from bytes. Where they end every decision is 0, so that each prefix is a test case too.

pub struct Input<'a> {
    bytes: &'a [u8],
}

impl<'a> Input<'a> {
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn rest(self) -> &'a [u8] {
        self.bytes
    }

    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let n = N.min(self.bytes.len());
        array[..n].copy_from_slice(&self.bytes[..n]);
        self.bytes = &self.bytes[n..];
        array
    }

    pub fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.array())
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// 0 to `n - 1`.
    pub fn below(&mut self, n: usize) -> usize {
        let number = if n <= 256 { self.u8().into() } else { self.u32() as usize };
        number % n
    }

    /// True about once in `n` times.
    pub fn once_in(&mut self, n: u8) -> bool {
        // Not at the end of the input.
        self.u8() % n == n - 1
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Any number, more often one that is near a limit.
    pub fn number(&mut self) -> i64 {
        match self.u8() {
            small @ 0..=127 => i64::from(small % 16),
            small @ 128..=159 => i64::from(small) - 160,
            160..=175 => i64::from(self.u8()),
            176..=223 => {
                let limit = 1i64.checked_shl(self.below(64) as u32).unwrap_or(0);
                limit.wrapping_add(self.below(5) as i64 - 2)
            }
            224..=231 => i64::MAX - self.below(4) as i64,
            232..=239 => i64::MIN + self.below(4) as i64,
            _ => self.u64() as i64,
        }
    }

    /// So many bytes: those of the input, then a sequence that they start.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        let n = bytes.len().min(self.bytes.len()).min(64);
        bytes[..n].copy_from_slice(&self.bytes[..n]);
        self.bytes = &self.bytes[n..];
        let mut state = bytes[..n].iter().fold(0x9e37_79b9_7f4a_7c15, |state: u64, byte| {
            (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        for byte in &mut bytes[n..] {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // Zeros, ones and limits, too.
            let any = (state >> 32) as u8;
            *byte = match state >> 40 & 15 {
                0..2 => 0,
                2 => 0xff,
                3 => 0x7f,
                4 => 0x80,
                _ => any,
            };
        }
    }
}
