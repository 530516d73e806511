//! Places the boxes of a map in tiers: hosts at the bottom, and each tier of switches above the tier below it.

use super::grouping::{BoxKind, Grouping};
use std::collections::BTreeMap;

/// The width and height of a host, of a switch and of a rack, and of a cell in a box of hosts.
const HOST: f64 = 10.0;
const SWITCH: (f64, f64) = (16.0, 12.0);
const RACK: (f64, f64) = (20.0, 20.0);
const CELL: f64 = 8.0;
/// The space around the cells of a box.
const CELL_MARGIN: f64 = 2.0;
/// The smallest distance between two boxes of a tier.
const GAP: f64 = 6.0;
/// The margin around the drawing, which holds the names of the boxes.
const MARGIN: f64 = 24.0;
/// The smallest width of a drawing.
const MIN_WIDTH: f64 = 480.0;
/// The maximum number of racks in a row, in a network that is drawn by rack.
const MAX_COLUMNS: usize = 128;

/// A link of the drawing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct DrawnLink {
    pub(super) a: usize,
    pub(super) b: usize,
    /// The channel from `a` to `b`. A link to the cells of a rack has one channel per cell instead.
    pub(super) forward: Option<usize>,
    /// The channel from `b` to `a`. The NICs of hosts have none, because only ports of switches are sampled.
    pub(super) backward: Option<usize>,
    /// How far the middle of the link bends to the left of the straight line from `a` to `b`.
    pub(super) bend: f64,
}

/// The place of a box. `x` and `y` are its left and upper edge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Place {
    fn center(&self) -> f64 {
        self.x + self.width / 2.0
    }
}

/// The places of all boxes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Layout {
    pub(super) places: Vec<Place>,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// Returns the number of columns in which the cells of a box are drawn.
pub(super) fn columns(cells: usize) -> usize {
    // About twice as wide as high.
    (2 * cells).isqrt().clamp(1, cells.max(1))
}

/// Places all boxes, and bends the links that would cover others.
pub(super) fn place(grouping: &Grouping, links: &mut [DrawnLink]) -> Layout {
    let mut places: Vec<Place> = grouping
        .boxes
        .iter()
        .map(|one| {
            let (width, height) = box_size(one.kind, one.hosts.len());
            Place { x: 0.0, y: 0.0, width, height }
        })
        .collect();
    let mut tiers: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (index, one) in grouping.boxes.iter().enumerate() {
        tiers.entry(one.tier).or_default().push(index);
    }
    let below = boxes_below(grouping, links);
    let racks = tiers.get(&1).cloned().unwrap_or_default();
    // Many racks form several rows. A column then needs the space of one rack.
    let rows = if tiers.contains_key(&0) { 1 } else { racks.len().div_ceil(MAX_COLUMNS).max(1) };
    let columns: Vec<&[usize]> = racks.chunks(rows).collect();
    let slots: Vec<f64> =
        columns.iter().map(|column| slot_width(&places, column[0], &below[column[0]])).collect();
    let row_width = |tier: &Vec<usize>| tier.iter().map(|index| places[*index].width + GAP).sum::<f64>();
    let higher = tiers.iter().filter(|(tier, _)| **tier > 1).map(|(_, boxes)| row_width(boxes));
    let inner = higher.fold(slots.iter().sum::<f64>().max(MIN_WIDTH), f64::max);
    place_racks(&mut places, &columns, &slots, &below, inner);
    for tier in tiers.iter().filter(|(tier, _)| **tier > 1).map(|(_, boxes)| boxes) {
        place_tier(&mut places, tier, &below, inner);
    }
    let height = place_rows(&mut places, &tiers, rows, inner);
    bend_links(&places, grouping, links);
    Layout { places, width: inner + 2.0 * MARGIN, height }
}

fn box_size(kind: BoxKind, hosts: usize) -> (f64, f64) {
    match kind {
        BoxKind::Host => (HOST, HOST),
        BoxKind::Switch | BoxKind::Switches => SWITCH,
        BoxKind::Rack => RACK,
        BoxKind::Hosts => {
            let columns = columns(hosts);
            let rows = hosts.div_ceil(columns);
            (columns as f64 * CELL + 2.0 * CELL_MARGIN, rows as f64 * CELL + 2.0 * CELL_MARGIN)
        }
    }
}

/// Returns the boxes of the next lower tier that each box has links to.
fn boxes_below(grouping: &Grouping, links: &[DrawnLink]) -> Vec<Vec<usize>> {
    let mut below = vec![Vec::new(); grouping.boxes.len()];
    for DrawnLink { a, b, .. } in links {
        let tiers = [a, b].map(|index| grouping.boxes[*index].tier);
        if tiers[0] == tiers[1] + 1 {
            below[*a].push(*b);
        } else if tiers[1] == tiers[0] + 1 {
            below[*b].push(*a);
        }
    }
    below
}

/// Returns the width that a rack and its hosts need.
fn slot_width(places: &[Place], rack: usize, hosts: &[usize]) -> f64 {
    let hosts: f64 = hosts.iter().map(|host| places[*host].width + GAP).sum();
    hosts.max(places[rack].width + GAP)
}

/// Places the columns of racks side by side, each rack with its hosts below it.
fn place_racks(places: &mut [Place], columns: &[&[usize]], slots: &[f64], below: &[Vec<usize>], inner: f64) {
    let spare = (inner - slots.iter().sum::<f64>()) / columns.len().max(1) as f64;
    let mut left = MARGIN;
    for (column, slot) in columns.iter().zip(slots) {
        let center = left + (slot + spare) / 2.0;
        column.iter().for_each(|rack| places[*rack].x = center - places[*rack].width / 2.0);
        let hosts = &below[column[0]];
        let hosts_width: f64 = hosts.iter().map(|host| places[*host].width + GAP).sum();
        // A few hosts use the spare width too, so that their links do not cover each other.
        let stretch = if hosts_width > 0.0 { ((slot + spare) / hosts_width).clamp(1.0, 4.0) } else { 1.0 };
        let mut x = center - hosts_width * stretch / 2.0;
        for host in hosts {
            let width = (places[*host].width + GAP) * stretch;
            places[*host].x = x + (width - places[*host].width) / 2.0;
            x += width;
        }
        left += slot + spare;
    }
}

/// Places the boxes of a higher tier at equal distances, in the order of the boxes below them.
fn place_tier(places: &mut [Place], tier: &[usize], below: &[Vec<usize>], inner: f64) {
    let mean = |index: &usize| {
        let centers: f64 = below[*index].iter().map(|other| places[*other].center()).sum();
        centers / below[*index].len().max(1) as f64
    };
    // Boxes above the same boxes stay in the order of their numbers, despite rounding errors of the mean.
    let mut order: Vec<(f64, usize)> =
        tier.iter().map(|index| ((mean(index) * 1e3).round(), *index)).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let pitch = inner / order.len().max(1) as f64;
    for (position, (_, index)) in order.into_iter().enumerate() {
        let center = MARGIN + pitch * (position as f64 + 0.5);
        places[index].x = center - places[index].width / 2.0;
    }
}

/// Sets the height of each tier, and returns the height of the drawing. The racks form `rack_rows` rows.
fn place_rows(places: &mut [Place], tiers: &BTreeMap<u32, Vec<usize>>, rack_rows: usize, inner: f64) -> f64 {
    let switch_gap = (0.16 * inner).max(70.0);
    let host_gap = (0.07 * inner).max(44.0);
    let (mut y, mut bottom) = (MARGIN, MARGIN);
    for (tier, boxes) in tiers.iter().rev() {
        let height = boxes.iter().map(|index| places[*index].height).fold(0.0, f64::max);
        let rows = if *tier == 1 { rack_rows } else { 1 };
        for (position, index) in boxes.iter().enumerate() {
            places[*index].y = y + (position % rows) as f64 * (height + GAP);
        }
        bottom = y + height + (rows - 1) as f64 * (height + GAP);
        y = bottom + if *tier == 1 { host_gap } else { switch_gap };
    }
    bottom + MARGIN
}

/// Bends parallel links apart, and links within a tier around the boxes between their ends.
fn bend_links(places: &[Place], grouping: &Grouping, links: &mut [DrawnLink]) {
    let mut positions: Vec<usize> = (0..places.len()).collect();
    positions.sort_by(|a, b| places[*a].x.total_cmp(&places[*b].x));
    let mut rank = vec![0; places.len()];
    let mut next_rank: BTreeMap<u32, usize> = BTreeMap::new();
    for index in positions {
        let next = next_rank.entry(grouping.boxes[index].tier).or_default();
        rank[index] = *next;
        *next += 1;
    }
    let mut lanes: BTreeMap<(usize, usize), u32> = BTreeMap::new();
    for link in links {
        let is_same_tier = grouping.boxes[link.a].tier == grouping.boxes[link.b].tier;
        if is_same_tier && rank[link.a] > rank[link.b] {
            core::mem::swap(&mut link.a, &mut link.b);
            core::mem::swap(&mut link.forward, &mut link.backward);
        }
        let lane = lanes.entry((link.a.min(link.b), link.a.max(link.b))).or_default();
        let distance = (places[link.a].center() - places[link.b].center()).abs();
        let around = if is_same_tier && rank[link.b] - rank[link.a] > 1 {
            (12.0 + 0.12 * distance).min(60.0)
        } else {
            0.0
        };
        // Lanes alternate between both sides: 0, 1, -1, 2, -2.
        let step = f64::from(lane.div_ceil(2));
        link.bend = around + 9.0 * if *lane % 2 == 1 { step } else { -step };
        *lane += 1;
    }
}
