//! Columns that are put together in a buffer, and by somebody else where they go: as elements of another size.

use super::*;

/// What puts so many elements of a column from there in the buffer to there in the destination, with a line for what of the
/// column waits until the block below, and whether they are the first and the last of it. False: stop.
pub trait Put: Fn(*const u8, *mut u8, usize, *mut Line, (bool, bool)) -> bool {}
impl<F: Fn(*const u8, *mut u8, usize, *mut Line, (bool, bool)) -> bool> Put for F {}

/// Bytes of the longest columns that are put as one where they follow one another, and that are put at a time of those while what
/// comes next is asked for.
const JOINED: usize = 4 << 10;
const TURN: usize = 2 << 10;

/// Transposes matrices whose elements have some bytes, and others in the destination, into a buffer, block by block.
/// `asks`: for the next block, as something is put. None: there is no buffer; false: so said `put`.
///
/// # Safety
/// As [`ScatteredFn`], whose `transpose` is for elements of the source.
pub unsafe fn put_scattered(
    scattered: &Scattered,
    (from, to): (usize, usize),
    transpose: ScatteredFn,
    asks: bool,
    put: impl Put,
) -> Option<bool> {
    let stage = Stage::take()?;
    let Scattered { source, destination, matrices, .. } = *scattered;
    let Matrices { ref rows, columns, outer, .. } = *matrices;
    let (height, width) = (rows.offsets.len(), columns.len() * from);
    let whole = height * to;
    // Columns that follow one another are put as one: what two share of a line is not written by itself.
    let joins = rows.blocks == 1 && whole <= JOINED && !(height * from).is_multiple_of(CLASHING as usize);
    let joined = if joins { joined(columns, whole as isize) } else { 1 };
    let follow = joined > 1;
    let pitch = if follow { height * from } else { (height * from).next_multiple_of(LINE) + LINE };
    // Strip by strip, so that memory has something to do all the time.
    let some = if asks { LINE / from } else { STAGE / pitch };
    let mut room = [const { MaybeUninit::uninit() }; MOST];
    let starts = starts(&mut room, columns.len().min(2 * some).min(STAGE / pitch), pitch);
    let turn = if asks { (TURN / whole).max(1) } else { columns.len() };
    // Whole ones of those, or parts of one.
    let group = if follow { joined * (starts.len() / joined).max(1) } else { columns.len() };
    // What is read in one piece: rows that do not follow each other, if the source has as many columns.
    let runs = 1 + rows.offsets.windows(2).filter(|two| two[1] - two[0] != width as isize).count();
    let across = Axis { extent: 1, source: 0, destination: 0 };
    let mut at = PerAxis::new();
    let mut places = Places::new(outer, source, destination, &mut at);
    loop {
        for index in 0..rows.blocks {
            let offsets = rows.of(index);
            let from_here = places.source.wrapping_offset(index as isize * rows.next);
            let to_here = places.destination.wrapping_add(index * whole);
            let mut ahead = asks.then(|| {
                let (next, offsets) = match index + 1 < rows.blocks {
                    true => (from_here.wrapping_offset(rows.next), rows.of(index + 1)),
                    false => (matrices.after(&places), rows.of(0)),
                };
                Ahead::new(offsets.iter().map(move |row| next.wrapping_offset(*row)), width)
            });
            let lines = lines_each(runs, offsets.len() * width, columns.len());
            let mut ask = |columns: usize| {
                if let Some(ahead) = &mut ahead {
                    ahead.ask(lines * columns);
                }
            };
            let mut first = 0;
            while first < columns.len() {
                let begins = first / group * group;
                let left = columns.len().min(begins + group) - first;
                let last = if left <= starts.len() { left } else { some };
                let these = &columns[first..first + last];
                let block = Matrices {
                    rows: Rows { offsets, blocks: 1, next: 0, last: offsets.len() },
                    columns: &starts[..last],
                    clash: clash(&starts[..last]),
                    across,
                    last,
                    outer: &[],
                    ..*matrices
                };
                // SAFETY: the caller's; the buffer has room for so many columns, and a line for each waits.
                unsafe {
                    let block = Scattered {
                        source: from_here.add(first * from),
                        destination: stage.start(),
                        matrices: &block,
                        end: scattered.end,
                        far: scattered.far && !asks,
                    };
                    transpose(&block, How::Cached);
                    if follow {
                        let mut done = 0;
                        while done < last {
                            // Of those that follow one another from here on.
                            let (past, beyond) = (done % joined, last.min(done / joined * joined + joined));
                            let rest = beyond - done;
                            let count = if rest < 2 * turn { rest } else { turn };
                            let ends = (first == begins && past == 0, last == left && done + count == beyond);
                            let (staged, to) = (stage.start().add(done * pitch), to_here.offset(these[done]));
                            if !put(staged, to, count * height, stage.carried(0), ends) {
                                return Some(false);
                            }
                            ask(count);
                            done += count;
                        }
                    } else {
                        let ends = (index == 0, index + 1 == rows.blocks);
                        for (place, column) in these.iter().enumerate() {
                            let (staged, to) = (stage.start().add(place * pitch), to_here.offset(*column));
                            if !put(staged, to, offsets.len(), stage.carried(first + place), ends) {
                                return Some(false);
                            }
                            ask(1);
                        }
                    }
                }
                first += last;
            }
        }
        if !places.advance() {
            return Some(true);
        }
    }
}

/// Of how many columns, of so many bytes each, the first and so many after it follow one another, again and again.
fn joined(columns: &[isize], whole: isize) -> usize {
    let follow = |two: &[isize]| two[1] - two[0] == whole;
    let count = 1 + columns.windows(2).take_while(|two| follow(two)).count();
    let all = columns.chunks(count).all(|these| these.len() == count && these.windows(2).all(follow));
    if all { count } else { 1 }
}
