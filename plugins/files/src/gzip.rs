//! A gzip stream: written, compressed or not, and read to its last byte.
//!
//! The crate's level 0 takes several times the fuel that copying does, so the uncompressed form is written here: blocks
//! of at most 65,535 bytes, each behind its length (RFC 1951, 3.2.4). Its reader of several members takes the zeros that
//! tapes and blocks are filled up with for a broken member, so they are told apart here.

use std::io::{self, BufRead, Read, Write};

use flate2::bufread::GzDecoder;
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

/// What is in a gzip stream: one member after another, each checked against what stands behind it. At the end there may
/// be zeros and nothing else, since what is damaged there cannot be told from what never belonged to it.
pub struct GzipReader<R: BufRead> {
    /// None at the end.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> GzipReader<R> {
    pub fn new(input: R) -> Self {
        Self { member: Some(GzDecoder::new(input)) }
    }
}

impl<R: BufRead> Read for GzipReader<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let read = member.read(bytes)?;
            if read > 0 || bytes.is_empty() {
                return Ok(read);
            }
            skip_zeros(member.get_mut())?;
            let is_end = member.get_mut().fill_buf()?.is_empty();
            self.member =
                self.member.take().filter(|_| !is_end).map(|member| GzDecoder::new(member.into_inner()));
        }
        Ok(0)
    }
}

fn skip_zeros(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let piece = input.fill_buf()?;
        let zeros = piece.iter().take_while(|byte| **byte == 0).count();
        let goes_on = zeros > 0 && zeros == piece.len();
        input.consume(zeros);
        if !goes_on {
            return Ok(());
        }
    }
}
