//! Shapes and strides: bounds, contiguity, overlap, and the folding of two stride sets into one job.
//!
//! Strides here are whole: every axis has one, compact on axes whose stride means nothing, and every
//! product fits 63 bits, which `dlpack::TensorView` has checked.
#![forbid(unsafe_code)]

/// The highest rank there is.
pub const MAX_NDIM: usize = 64;

/// The order of the axes of a new tensor, outermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Row-major: the last axis is innermost.
    C,
    /// Column-major: the first axis is innermost.
    F,
    /// As the source has them, by the size of its strides.
    Keep,
}

/// Number of elements; None where it does not fit 63 bits.
pub fn num_elements(shape: &[i64]) -> Option<i64> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1i64, |count, extent| count.checked_mul(*extent))
}

/// Row-major strides of a compact tensor. Axes of extent 0 count as 1, so that no stride is 0.
pub fn compact_strides(shape: &[i64], strides: &mut [i64]) {
    let mut step = 1i64;
    for (extent, stride) in shape.iter().zip(strides).rev() {
        *stride = step;
        step = step.saturating_mul((*extent).max(1));
    }
}

/// Strides of a new, dense tensor. `source` are the strides that [`Order::Keep`] follows.
pub fn dense_strides(shape: &[i64], source: &[i64], order: Order, strides: &mut [i64]) {
    let ndim = shape.len();
    let mut axes = [0u8; MAX_NDIM];
    let axes = &mut axes[..ndim];
    for (index, axis) in axes.iter_mut().enumerate() {
        *axis = index as u8;
    }
    match order {
        Order::C => {}
        Order::F => axes.reverse(),
        // Stable, so that axes that share a stride stay row-major; as numpy's order='K'.
        Order::Keep => insertion_sort(axes, |a, b| {
            source[usize::from(*a)].unsigned_abs() >= source[usize::from(*b)].unsigned_abs()
        }),
    }
    let mut step = 1i64;
    for axis in axes.iter().rev() {
        let axis = usize::from(*axis);
        strides[axis] = step;
        step = step.saturating_mul(shape[axis].max(1));
    }
}

/// Sorts a short slice, stably, without allocating. `in_order(a, b)`: `a` may stand before `b`.
fn insertion_sort<T: Copy>(items: &mut [T], in_order: impl Fn(&T, &T) -> bool) {
    for end in 1..items.len() {
        let item = items[end];
        let mut at = end;
        while at > 0 && !in_order(&items[at - 1], &item) {
            items[at] = items[at - 1];
            at -= 1;
        }
        items[at] = item;
    }
}

/// What the strides of a tensor amount to. Offsets are in elements from the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    bits: u32,
    /// The lowest offset of an element, at most 0.
    pub lowest: i64,
    /// The highest offset of an element, at least 0.
    pub highest: i64,
}

macro_rules! facts {
    ($($(#[$doc:meta])* $ask:ident $bit:ident = $value:literal;)*) => {
        impl Facts {
            $(
                $(#[$doc])*
                pub const $bit: u32 = $value;
                $(#[$doc])*
                #[inline(always)]
                pub const fn $ask(&self) -> bool {
                    self.bits & Facts::$bit != 0
                }
            )*
        }
    };
}

// The numbers are the C API's.
facts! {
    /// Compact row-major; size-1 axes and empty tensors never disqualify.
    is_c_contiguous C_CONTIGUOUS = 0x1;
    /// Compact column-major.
    is_f_contiguous F_CONTIGUOUS = 0x2;
    /// Compact under some permutation of the axes.
    is_dense DENSE = 0x4;
    /// A stride of 0 on an axis longer than 1.
    is_broadcast BROADCAST = 0x8;
    /// A negative stride on an axis longer than 1.
    is_negative NEGATIVE = 0x10;
    /// Two indices may share an element.
    is_overlapping OVERLAPPING = 0x20;
    /// Some axis is 0.
    is_empty EMPTY = 0x40;
}

impl Facts {
    /// All bits that there are.
    pub const ALL: u32 = 0x7f;

    /// Every fact that holds, as a set.
    #[inline(always)]
    pub const fn bits(&self) -> u32 {
        self.bits
    }

    /// Of a compact, row-major tensor of some elements, and so many axes that are longer than 1.
    #[inline(always)]
    pub fn row_major(count: i64, long_axes: u32) -> Facts {
        let f = if long_axes < 2 { Facts::F_CONTIGUOUS } else { 0 };
        Facts { bits: Facts::C_CONTIGUOUS | Facts::DENSE | f, lowest: 0, highest: count - 1 }
    }

    /// Of a tensor without elements.
    pub fn empty() -> Facts {
        let bits = Facts::EMPTY | Facts::C_CONTIGUOUS | Facts::F_CONTIGUOUS | Facts::DENSE;
        Facts { bits, lowest: 0, highest: 0 }
    }

    /// Of a tensor with `count` elements, at least one, whose axes are no [`Run`] as they come. False: its reach
    /// does not fit 63 bits.
    #[inline(never)]
    fn of_odd(shape: &[i64], strides: &[i64], count: i64, facts: &mut Facts) -> bool {
        let (mut broadcast, mut negative) = (false, false);
        let (mut lowest, mut highest) = (0i64, 0i64);
        for (&extent, &stride) in shape.iter().zip(strides) {
            if extent == 1 {
                continue;
            }
            let end = if stride > 0 { &mut highest } else { &mut lowest };
            let reach = (extent - 1).checked_mul(stride);
            let Some(sum) = reach.and_then(|reach| end.checked_add(reach)) else { return false };
            *end = sum;
            broadcast |= stride == 0;
            negative |= stride < 0;
        }
        let bits = if (lowest, highest) == (0, count - 1) && Run::is_somehow(shape, strides, count) {
            Facts::DENSE
        } else {
            let bit = |holds: bool, bit: u32| if holds { bit } else { 0 };
            bit(broadcast, Facts::BROADCAST)
                | bit(negative, Facts::NEGATIVE)
                | bit(broadcast || overlaps_itself(shape, strides), Facts::OVERLAPPING)
        };
        *facts = Facts { bits, lowest, highest };
        true
    }
}

/// Axes of a tensor that each begin where the one before it ends, in some order; as they come, last axis first.
#[derive(Clone, Copy)]
pub struct Run {
    /// Where the first one begins and the last one ends.
    begin: i64,
    end: i64,
    /// How many came at the end.
    behind: u32,
}

impl Run {
    /// Of axes that are row-major and have so many elements; so many are longer than 1.
    #[inline(always)]
    pub fn row_major(count: i64, long_axes: u32) -> Run {
        Run { begin: 1, end: count, behind: long_axes }
    }

    /// One that is longer than 1. Where it is at neither end, another run begins: if all are one in another order,
    /// [`Run::facts`] finds out.
    #[inline(always)]
    pub fn push(&mut self, extent: i64, stride: i64) {
        let end = stride.wrapping_mul(extent);
        if stride == self.end {
            self.end = end;
            self.behind += 1;
        } else {
            if end != self.begin {
                self.end = end;
            }
            self.begin = stride;
        }
    }

    /// Whether it is all of a tensor with so many elements.
    // Then none is missing, and none wrapped: from 1 upwards all steps are exact, and the product of all is `count`.
    #[inline(always)]
    fn is_all(self, count: i64) -> bool {
        (self.begin, self.end) == (1, count)
    }

    /// The facts of the tensor whose long axes have come, which has `count` elements, at least one, and is not
    /// row-major. None: its reach does not fit 63 bits.
    #[inline(always)]
    pub fn facts(self, shape: &[i64], strides: &[i64], count: i64) -> Option<Facts> {
        if self.is_all(count) {
            let f = if self.behind == 0 { Facts::F_CONTIGUOUS } else { 0 };
            return Some(Facts { bits: Facts::DENSE | f, lowest: 0, highest: count - 1 });
        }
        // By way of `facts`, which is read field by field: a result that is copied waits for all of them.
        let mut facts = Facts::empty();
        Facts::of_odd(shape, strides, count, &mut facts).then_some(facts)
    }

    /// Whether axes are a run in some order.
    #[cold]
    fn is_somehow(shape: &[i64], strides: &[i64], count: i64) -> bool {
        let long = || shape.iter().zip(strides).rev().filter(|(extent, _)| **extent != 1);
        let Some((&extent, &stride)) = long().next() else { return true };
        let mut run = Run { begin: stride, end: stride.wrapping_mul(extent), behind: 0 };
        // Each time at least one more comes.
        for _ in shape {
            let before = (run.begin, run.end);
            for (&extent, &stride) in long() {
                if stride == run.end || stride.wrapping_mul(extent) == run.begin {
                    run.push(extent, stride);
                }
            }
            if run.is_all(count) || (run.begin, run.end) == before {
                break;
            }
        }
        run.is_all(count)
    }
}

/// Describes a tensor by its shape and strides, whose product fits 63 bits. None: its reach does not.
pub fn facts(shape: &[i64], strides: &[i64]) -> Option<Facts> {
    let mut count = 1i64;
    let mut c_contiguous = true;
    let mut long_axes = 0;
    for (&extent, &stride) in shape.iter().zip(strides).rev() {
        if extent == 0 {
            return Some(Facts::empty());
        }
        if extent != 1 {
            long_axes += 1;
            c_contiguous &= stride == count;
            count = count.wrapping_mul(extent);
        }
    }
    if c_contiguous {
        return Some(Facts::row_major(count, long_axes));
    }
    let mut run = Run::row_major(1, 0);
    for (&extent, &stride) in shape.iter().zip(strides).rev() {
        if extent != 1 {
            run.push(extent, stride);
        }
    }
    run.facts(shape, strides, count)
}

/// An axis of two tensors that are walked together. Strides count whatever unit the job uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Axis {
    /// Number of steps; at least 1.
    pub extent: i64,
    /// Step in the source.
    pub source: i64,
    /// Step in the destination.
    pub destination: i64,
}

impl Axis {
    /// Whether a step of it is as long as all of an inner one on both sides.
    #[inline(always)]
    fn goes_on_in(&self, inner: &Axis) -> bool {
        let ends = |inner_step: i64| inner_step.checked_mul(inner.extent);
        ends(inner.source) == Some(self.source) && ends(inner.destination) == Some(self.destination)
    }
}

/// Axes folded to the fewest that visit the same pairs of places.
#[derive(Clone, Copy, Debug)]
pub struct Folded<'a> {
    /// The axes, outermost first, by falling destination stride.
    pub axes: &'a [Axis],
    /// What flipping added to the source's start, in its unit.
    pub source_offset: i64,
    /// What flipping added to the destination's start.
    pub destination_offset: i64,
}

impl<'a> Folded<'a> {
    /// Drops axes of extent 1, flips those that run backwards in the destination, sorts by
    /// destination stride and merges neighbours that are contiguous on both sides. `room` holds those
    /// that are longer than 1; none is 0.
    #[inline(always)]
    pub fn new<I: IntoIterator<Item = Axis, IntoIter: Clone>>(axes: I, room: &'a mut [Axis]) -> Folded<'a> {
        let axes = axes.into_iter();
        match Folded::as_they_come(axes.clone(), room) {
            Some(len) => Folded { axes: &room[..len], source_offset: 0, destination_offset: 0 },
            None => Folded::sorted(axes, room),
        }
    }

    /// The same for a destination that is by falling stride, as most are; says how many there are. None: it is not.
    #[inline(always)]
    fn as_they_come(axes: impl Iterator<Item = Axis>, room: &mut [Axis]) -> Option<usize> {
        let mut len = 0;
        let mut outer = Axis { extent: 1, source: 0, destination: i64::MAX };
        for mut axis in axes {
            if axis.extent == 1 {
                continue;
            }
            if axis.destination < 0 || axis.destination >= outer.destination {
                return None;
            }
            if len > 0 && outer.goes_on_in(&axis) {
                axis.extent *= outer.extent;
                len -= 1;
            }
            room[len] = axis;
            (outer, len) = (axis, len + 1);
        }
        Some(len)
    }

    /// The same for any.
    #[inline(never)]
    fn sorted(axes: impl Iterator<Item = Axis>, room: &'a mut [Axis]) -> Folded<'a> {
        let (mut source_offset, mut destination_offset, mut len) = (0, 0, 0);
        for mut axis in axes {
            if axis.extent == 1 {
                continue;
            }
            if axis.destination < 0 {
                source_offset += (axis.extent - 1) * axis.source;
                destination_offset += (axis.extent - 1) * axis.destination;
                axis.source = -axis.source;
                axis.destination = -axis.destination;
            }
            let mut at = len;
            while at > 0 && room[at - 1].destination < axis.destination {
                room[at] = room[at - 1];
                at -= 1;
            }
            room[at] = axis;
            len += 1;
        }
        let mut kept = 0;
        for index in 1..len {
            let inner = room[index];
            let outer = &mut room[kept];
            if outer.goes_on_in(&inner) {
                *outer = Axis { extent: outer.extent * inner.extent, ..inner };
            } else {
                kept += 1;
                room[kept] = inner;
            }
        }
        Folded { axes: &room[..len.min(kept + 1)], source_offset, destination_offset }
    }
}

/// Whether two indices share an element, exactly where that is cheap to know, else "yes". The reach of
/// the strides fits 63 bits on either side.
fn overlaps_itself(shape: &[i64], strides: &[i64]) -> bool {
    // As they are, which for most tensors is by falling stride.
    let long = shape.iter().zip(strides).rev().filter(|(extent, _)| **extent > 1);
    if are_nested(long.map(|(extent, stride)| (stride.unsigned_abs(), (extent - 1) as u64))) {
        return false;
    }
    // Room for as many axes as most tensors have costs less to clear.
    const FEW: usize = 8;
    if shape.len() <= FEW {
        overlaps_within(shape, strides, &mut [(0, 0); FEW])
    } else {
        overlaps_within(shape, strides, &mut [(0, 0); MAX_NDIM])
    }
}

fn overlaps_within(shape: &[i64], strides: &[i64], axes: &mut [(u64, u64)]) -> bool {
    let mut len = 0;
    for (&extent, &stride) in shape.iter().zip(strides) {
        if extent > 1 {
            axes[len] = (stride.unsigned_abs(), (extent - 1) as u64);
            len += 1;
        }
    }
    let axes = &mut axes[..len];
    insertion_sort(axes, |a, b| a.0 <= b.0);
    !are_nested(axes.iter().copied()) && meets_itself(axes)
}

/// Whether each axis, a stride and the highest index, steps over all that the ones before it reach, which fits
/// 64 bits: then no two indices can meet.
#[inline(always)]
fn are_nested(mut axes: impl Iterator<Item = (u64, u64)>) -> bool {
    let mut reach = 0;
    axes.all(|(stride, last)| {
        let steps_over = stride > reach;
        reach += stride * last;
        steps_over
    })
}

/// Whether two indices share an element of axes that do not step over each other.
#[cold]
fn meets_itself(axes: &[(u64, u64)]) -> bool {
    // Two indices meet when their difference d, not 0, has sum(d * stride) = 0 with |d| <= last. Let
    // the first axis where they differ have d > 0, and shift the ones behind it to start from 0.
    let mut budget = Budget::default();
    for first in 0..axes.len() {
        let (stride, last) = axes[first];
        let mut terms = Terms::default();
        terms.push(stride.into(), last - 1);
        let mut target = -i128::from(stride);
        for &(stride, last) in &axes[..first] {
            terms.push(stride.into(), 2 * last);
            target += i128::from(stride) * i128::from(last);
        }
        if terms.solvable(target, &mut budget) {
            return true;
        }
    }
    false
}

/// The memory of a tensor, in bits, so that packed elements can be told apart.
#[derive(Clone, Copy, Debug)]
pub struct Extent<'a> {
    /// Address of the first element.
    pub address: i128,
    /// Extents of the axes.
    pub shape: &'a [i64],
    /// Strides in elements.
    pub strides: &'a [i64],
    /// Size of an element, and the unit of the strides.
    pub element: u64,
}

/// Whether two tensors share memory, exactly where that is cheap to know, else "yes". Neither is
/// empty.
pub fn share_memory(a: Extent<'_>, b: Extent<'_>) -> bool {
    let span = |tensor: &Extent<'_>| {
        let (mut low, mut high) = (tensor.address, tensor.address + i128::from(tensor.element));
        for (&extent, &stride) in tensor.shape.iter().zip(tensor.strides) {
            let reach = i128::from(extent - 1) * i128::from(stride) * i128::from(tensor.element);
            if reach < 0 {
                low += reach;
            } else {
                high += reach;
            }
        }
        (low, high)
    };
    let ((a_low, a_high), (b_low, b_high)) = (span(&a), span(&b));
    if a_high <= b_low || b_high <= a_low {
        return false;
    }
    // All strides made positive, each tensor is its lowest address plus a sum of non-negative terms:
    // low_a + sum(x * s) = low_b + sum(y * t). With y counted down from its top, all signs are plus.
    let mut terms = Terms::default();
    for tensor in [&a, &b] {
        for (&extent, &stride) in tensor.shape.iter().zip(tensor.strides) {
            let weight = u128::from(stride.unsigned_abs()) * u128::from(tensor.element);
            terms.push(weight, (extent - 1) as u64);
        }
        terms.push(1, tensor.element - 1);
    }
    terms.solvable(b_high - 1 - a_low, &mut Budget::default())
}

/// How many branches a search may visit before it gives up and answers "maybe".
struct Budget(u32);

impl Default for Budget {
    fn default() -> Budget {
        Budget(20_000)
    }
}

/// Bounded non-negative integers with weights: is there a choice that sums to a target?
struct Terms {
    /// Weight, and the highest count.
    terms: [(u128, u64); 2 * MAX_NDIM + 2],
    len: usize,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms { terms: [(0, 0); 2 * MAX_NDIM + 2], len: 0 }
    }
}

impl Terms {
    fn push(&mut self, weight: u128, highest: u64) {
        if weight != 0 && highest != 0 {
            self.terms[self.len] = (weight, highest);
            self.len += 1;
        }
    }

    /// Exact within the budget, else true. A depth-first search over the terms, heaviest first, cut
    /// where the rest cannot reach the target by its size or its divisor.
    fn solvable(&mut self, target: i128, budget: &mut Budget) -> bool {
        let Ok(target) = u128::try_from(target) else { return false };
        let terms = &mut self.terms[..self.len];
        insertion_sort(terms, |a, b| a.0 >= b.0);
        // Equal weights act as one term.
        let mut kept = 0;
        for index in 1..terms.len() {
            if terms[index].0 == terms[kept].0 {
                terms[kept].1 = terms[kept].1.saturating_add(terms[index].1);
            } else {
                kept += 1;
                terms[kept] = terms[index];
            }
        }
        let terms = &mut terms[..(kept + 1).min(self.len)];
        // For each place, what the terms from there on can add up to, and what divides each of them.
        let mut rest = [(0u128, 0u128); 2 * MAX_NDIM + 3];
        for (index, &(weight, highest)) in terms.iter().enumerate().rev() {
            let (reach, divisor) = rest[index + 1];
            rest[index] = (reach.saturating_add(weight.saturating_mul(highest.into())), gcd(weight, divisor));
        }
        search(terms, &rest, target, budget)
    }
}

fn search(terms: &[(u128, u64)], rest: &[(u128, u128)], target: u128, budget: &mut Budget) -> bool {
    if target == 0 {
        return true;
    }
    let (reach, divisor) = rest[0];
    if target > reach || !target.is_multiple_of(divisor) {
        return false;
    }
    let (weight, highest) = terms[0];
    let most = (target / weight).min(highest.into());
    // Fewer of this weight than that leave more than the others can make up.
    let least = target.saturating_sub(rest[1].0).div_ceil(weight);
    let mut count = most;
    loop {
        if count < least {
            return false;
        }
        if budget.0 == 0 {
            return true;
        }
        budget.0 -= 1;
        if search(&terms[1..], &rest[1..], target - count * weight, budget) {
            return true;
        }
        if count == 0 {
            return false;
        }
        count -= 1;
    }
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small generator, so that the tests need no dependency and repeat.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> i64 {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((self.0 >> 33) % end) as i64
        }
    }

    fn offsets(shape: &[i64], strides: &[i64]) -> Vec<i64> {
        let mut all = vec![0];
        for (&extent, &stride) in shape.iter().zip(strides) {
            all = all.iter().flat_map(|o| (0..extent).map(move |i| o + i * stride)).collect();
        }
        all
    }

    fn random_tensor(random: &mut Random) -> (Vec<i64>, Vec<i64>) {
        let ndim = random.below(4);
        let shape: Vec<i64> = (0..ndim).map(|_| 1 + random.below(4)).collect();
        let mut strides: Vec<i64> = (0..ndim).map(|_| random.below(15) - 7).collect();
        if random.below(2) == 0 {
            dense_strides(&shape, &strides.clone(), Order::Keep, &mut strides);
        }
        (shape, strides)
    }

    #[test]
    fn facts_agree_with_enumeration() {
        let mut random = Random(1);
        for _ in 0..20_000 {
            let (shape, strides) = random_tensor(&mut random);
            let mut all = offsets(&shape, &strides);
            let facts = facts(&shape, &strides).unwrap();
            let context = format!("{shape:?} {strides:?} {facts:?}");
            let c = (0..).zip(&all).all(|(index, offset)| index == *offset);
            assert_eq!(facts.is_c_contiguous(), c, "{context}");
            all.sort_unstable();
            assert_eq!(facts.lowest, all[0], "{context}");
            assert_eq!(facts.highest, *all.last().unwrap(), "{context}");
            let count = all.len();
            all.dedup();
            assert_eq!(facts.is_overlapping(), all.len() < count, "{context}");
            let compact = all.len() == count && all[0] == 0 && all[count - 1] == count as i64 - 1;
            assert_eq!(facts.is_dense(), compact && !facts.is_negative(), "{context}");
        }
    }

    #[test]
    fn every_order_of_the_axes_is_dense() {
        let mut random = Random(4);
        for _ in 0..20_000 {
            let ndim = random.below(8) as usize;
            let shape: Vec<i64> = (0..ndim).map(|_| 1 + random.below(4)).collect();
            let order: Vec<i64> = (0..ndim).map(|_| random.below(1000)).collect();
            let [mut strides, mut column_major] = [vec![0; ndim], vec![0; ndim]];
            dense_strides(&shape, &order, Order::Keep, &mut strides);
            dense_strides(&shape, &order, Order::F, &mut column_major);
            let long = |strides: &[i64]| -> Vec<i64> {
                strides.iter().zip(&shape).filter(|(_, extent)| **extent > 1).map(|(s, _)| *s).collect()
            };
            let is_f = long(&strides) == long(&column_major);
            let facts = facts(&shape, &strides).unwrap();
            assert!(facts.is_dense() && !facts.is_overlapping(), "{shape:?} {strides:?} {facts:?}");
            assert_eq!(facts.is_f_contiguous(), is_f, "{shape:?} {strides:?} {facts:?}");
            assert_eq!((facts.lowest, facts.highest + 1), (0, shape.iter().product()));
        }
    }

    #[test]
    fn no_run_is_found_where_strides_wrap() {
        for (shape, strides) in [
            ([4, 4, 2], [1 << 62, 0, 1]),
            ([4, 2, 2], [1 << 62, 1 << 61, 1]),
            ([2, 3, 4], [-1, 1, -4]),
            ([2, 2, 2], [0, 0, 1]),
            ([2, 2, 2], [i64::MIN, i64::MIN, 1]),
            // Each ends where the other begins.
            ([3, 3, 2], [1 << 62, 3 << 62, 1]),
            ([3, 2, 3], [3 << 62, 1, 1 << 62]),
        ] {
            assert!(facts(&shape, &strides).is_none_or(|facts| !facts.is_dense()), "{shape:?} {strides:?}");
        }
    }

    #[test]
    fn shared_memory_agrees_with_enumeration() {
        let mut random = Random(2);
        for _ in 0..20_000 {
            let (a_shape, a_strides) = random_tensor(&mut random);
            let (b_shape, b_strides) = random_tensor(&mut random);
            let sizes = [1 + random.below(4) as u64, 1 + random.below(4) as u64];
            let starts = [1000 + random.below(40), 1000 + random.below(40)];
            let bytes = |shape: &[i64], strides: &[i64], which: usize| -> std::collections::HashSet<i64> {
                offsets(shape, strides)
                    .iter()
                    .flat_map(|o| {
                        (0..sizes[which] as i64).map(move |b| starts[which] + o * sizes[which] as i64 + b)
                    })
                    .collect()
            };
            let want = !bytes(&a_shape, &a_strides, 0).is_disjoint(&bytes(&b_shape, &b_strides, 1));
            let a =
                Extent { address: starts[0].into(), shape: &a_shape, strides: &a_strides, element: sizes[0] };
            let b =
                Extent { address: starts[1].into(), shape: &b_shape, strides: &b_strides, element: sizes[1] };
            assert_eq!(share_memory(a, b), want, "{a:?} {b:?}");
        }
    }

    #[test]
    fn a_search_that_is_too_long_says_maybe() {
        let strides: Vec<i64> = (0..40).map(|i| (1 << 40) + 3 * i * i + 1).collect();
        assert!(facts(&[2; 40], &strides).unwrap().is_overlapping());
    }

    #[test]
    fn folding_visits_the_same_pairs() {
        let mut random = Random(3);
        for _ in 0..5_000 {
            let (shape, source) = random_tensor(&mut random);
            let mut destination = vec![0; shape.len()];
            let order: Vec<i64> = shape.iter().map(|_| random.below(9)).collect();
            dense_strides(&shape, &order, Order::Keep, &mut destination);
            for stride in &mut destination {
                *stride *= [2, -2][random.below(2) as usize];
            }
            let axes = (0..shape.len()).map(|i| Axis {
                extent: shape[i],
                source: source[i],
                destination: destination[i],
            });
            let mut room = [Axis::default(); 8];
            let folded = Folded::new(axes, &mut room);
            let pairs = |shape: &[i64], source: &[i64], destination: &[i64], start: (i64, i64)| {
                let source = offsets(shape, source).into_iter().map(|o| o + start.0);
                let destination = offsets(shape, destination).into_iter().map(|o| o + start.1);
                let mut pairs: Vec<_> = source.zip(destination).collect();
                pairs.sort_unstable();
                pairs
            };
            let (mut s, mut d, mut e) = (vec![], vec![], vec![]);
            for axis in folded.axes {
                e.push(axis.extent);
                s.push(axis.source);
                d.push(axis.destination);
            }
            assert_eq!(
                pairs(&shape, &source, &destination, (0, 0)),
                pairs(&e, &s, &d, (folded.source_offset, folded.destination_offset))
            );
            assert!(d.is_sorted_by(|a, b| a > b), "{d:?}");
        }
    }

    #[test]
    fn folding_is_complete() {
        let contiguous = [(4, 60, 60), (3, 20, 20), (5, 4, 4), (4, 1, 1)];
        let axis = |(extent, source, destination)| Axis { extent, source, destination };
        let mut room = [Axis::default(); 4];
        let folded = Folded::new(contiguous.map(axis), &mut room);
        assert_eq!(folded.axes, [Axis { extent: 240, source: 1, destination: 1 }]);
        let permuted = [(4, 1, 60), (3, 20, 20), (5, 4, 4)];
        let folded = Folded::new(permuted.map(axis), &mut room);
        let want =
            [Axis { extent: 4, source: 1, destination: 60 }, Axis { extent: 15, source: 4, destination: 4 }];
        assert_eq!(folded.axes, want);
        assert!(Folded::new([], &mut []).axes.is_empty());
    }
}
