//! A gzip stream, compressed or not.
//!
//! The crate's level 0 takes several times the fuel that copying does, so the uncompressed form is written here: blocks
//! of at most 65,535 bytes, each behind its length (RFC 1951, 3.2.4).

use std::io::{self, Write};

use flate2::write::GzEncoder;
use flate2::{Compression, Crc};

/// What the length of a block can say.
const MAX_BLOCK_BYTES: usize = 65_535;

/// RFC 1952: the mark, deflate, no flags, no time, no hints, an unknown system.
const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

pub enum Gzip<W: Write> {
    Compressed(GzEncoder<W>),
    Stored(Stored<W>),
}

pub struct Stored<W: Write> {
    output: W,
    block: Vec<u8>,
    check: Crc,
}

impl<W: Write> Gzip<W> {
    /// Level 0 is not compressed.
    pub fn new(mut output: W, level: u32) -> io::Result<Self> {
        if level > 0 {
            return Ok(Self::Compressed(GzEncoder::new(output, Compression::new(level))));
        }
        output.write_all(&HEAD)?;
        let block = Vec::with_capacity(MAX_BLOCK_BYTES);
        Ok(Self::Stored(Stored { output, block, check: Crc::new() }))
    }

    pub fn finish(self) -> io::Result<()> {
        match self {
            Self::Compressed(encoder) => encoder.finish()?.flush(),
            Self::Stored(stored) => stored.finish(),
        }
    }
}

impl<W: Write> Write for Gzip<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Compressed(encoder) => encoder.write(bytes),
            Self::Stored(stored) => stored.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<W: Write> Stored<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.block.len() == MAX_BLOCK_BYTES {
            self.write_block(false)?;
        }
        let taken = bytes.len().min(MAX_BLOCK_BYTES - self.block.len());
        self.block.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn write_block(&mut self, is_last: bool) -> io::Result<()> {
        let length = u16::try_from(self.block.len()).map_err(io::Error::other)?;
        self.check.update(&self.block);
        self.output.write_all(&[u8::from(is_last)])?;
        self.output.write_all(&length.to_le_bytes())?;
        self.output.write_all(&(!length).to_le_bytes())?;
        self.output.write_all(&self.block)?;
        self.block.clear();
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        self.write_block(true)?;
        self.output.write_all(&self.check.sum().to_le_bytes())?;
        self.output.write_all(&self.check.amount().to_le_bytes())?;
        self.output.flush()
    }
}
