//! Generations of the contract, and those of the tape library.
use hakaru_contract::TapeGeneration;
use hakaru_tape::Generation;

/// Returns the generation that the contract names.
pub fn generation(generation: TapeGeneration) -> Generation {
    match generation {
        TapeGeneration::Lto3 => Generation::Lto3,
        TapeGeneration::Lto4 => Generation::Lto4,
        TapeGeneration::Lto5 => Generation::Lto5,
        TapeGeneration::Lto6 => Generation::Lto6,
    }
}
