//! A gzip stream: written, compressed or not, and read to its last byte.
//!
//! The crate's level 0 takes more than all fuel of a call for 16 MiB, so the uncompressed form is written here: blocks of
//! at most 65,535 bytes, each behind its length (RFC 1951, 3.2.4). Its reader of several members takes the zeros that tapes
//! and blocks are filled up with for a broken member, so they are told apart here.

use std::io::{self, BufRead, Read, Write};

use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use flate2::{Compression, Crc};

/// RFC 1952: the mark, deflate, no flags, no time, no hints, an unknown system.
const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

pub enum Gzip<W: Write> {
    Compressed(GzEncoder<W>),
    /// The unwritten bytes are less than a block.
    Stored(W, Vec<u8>, Crc),
}

impl<W: Write> Gzip<W> {
    /// Level 0 is not compressed.
    pub fn new(mut output: W, level: u32) -> io::Result<Self> {
        if level > 0 {
            return Ok(Self::Compressed(GzEncoder::new(output, Compression::new(level))));
        }
        output.write_all(&HEAD)?;
        Ok(Self::Stored(output, Vec::new(), Crc::new()))
    }

    pub fn finish(self) -> io::Result<W> {
        match self {
            Self::Compressed(encoder) => encoder.finish(),
            Self::Stored(mut output, rest, check) => {
                write_block(&mut output, &rest, true)?;
                output.write_all(&check.sum().to_le_bytes())?;
                output.write_all(&check.amount().to_le_bytes())?;
                Ok(output)
            }
        }
    }
}

impl<W: Write> Write for Gzip<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Compressed(encoder) => encoder.write(bytes),
            Self::Stored(output, block, check) => {
                let taken = bytes.len().min(usize::from(u16::MAX) - block.len());
                check.update(&bytes[..taken]);
                block.extend_from_slice(&bytes[..taken]);
                if block.len() == usize::from(u16::MAX) {
                    write_block(output, block, false)?;
                    block.clear();
                }
                Ok(taken)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_block(output: &mut impl Write, block: &[u8], is_last: bool) -> io::Result<()> {
    let length = u16::try_from(block.len()).map_err(io::Error::other)?;
    output.write_all(&[u8::from(is_last)])?;
    output.write_all(&length.to_le_bytes())?;
    output.write_all(&(!length).to_le_bytes())?;
    output.write_all(block)
}

/// The content of a gzip stream: one member after another, each checked against its checksum. At the end there may
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
            self.member = self.member.take().map(GzDecoder::into_inner).and_then(next_member).transpose()?;
        }
        Ok(0)
    }
}

/// The member that follows, behind zeros, if there is one.
fn next_member<R: BufRead>(mut input: R) -> Option<io::Result<GzDecoder<R>>> {
    loop {
        let piece = match input.fill_buf() {
            Ok(piece) => piece,
            Err(error) => return Some(Err(error)),
        };
        let (length, zeros) = (piece.len(), piece.iter().take_while(|byte| **byte == 0).count());
        input.consume(zeros);
        match zeros {
            _ if length == 0 => return None,
            0 => return Some(Ok(GzDecoder::new(input))),
            _ => {}
        }
    }
}
