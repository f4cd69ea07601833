//! Tests caching, eviction, and the composition of rows from cached segments.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

fn key(path: &str) -> FieldKey {
    FieldKey { layout: 0, kind: Subject::Individual, path: path.to_owned(), form: (FieldType::Integer, false) }
}

/// A column of one segment with 100 bytes of values.
fn column() -> Vec<Column> {
    let values = ColumnValues::Booleans(vec![1; 100]);
    vec![Column { space: RowSpace::Me, path: String::new(), valid: Vec::new(), values }]
}

fn part_bytes() -> u64 {
    column().iter().map(bytes_of).sum::<u64>() + 4
}

/// Caches a segment of a field if there is free space. Returns true if it was cached.
fn keep(cached: &PreviewCache, asking: Asking, path: &str, first: u32) -> bool {
    let versions: Arc<[u32]> = [1].into();
    drop(cached.keep(asking, &key(path), first, &versions, column()));
    cached.find(asking, &key(path), first, &versions).is_some()
}

fn has(cached: &PreviewCache, path: &str, first: u32) -> bool {
    cached.lock().fields.get(&key(path)).is_some_and(|field| field.parts.contains_key(&first))
}

#[test]
fn memory_is_full_at_its_bound_and_not_before() {
    for (room, is_stored) in [(part_bytes() * 2 - 1, false), (part_bytes() * 2, true), (part_bytes() * 2 + 1, true)] {
        let cached = PreviewCache::new(room);
        let asking = cached.begin();
        assert!(keep(&cached, asking, "a", 0));
        assert_eq!(keep(&cached, asking, "a", 1_024), is_stored, "{room}");
        assert!(cached.usage().bytes <= room);
        assert!(has(&cached, "a", 0), "a field that is asked for does not drive itself out");
    }
    let none = PreviewCache::new(0);
    assert!(!keep(&none, none.begin(), "a", 0));
    assert_eq!(none.usage(), PreviewCacheUsage { bytes: 0, found: 0, read: 1, dropped: 0 });
}

#[test]
fn the_field_that_was_asked_for_longest_ago_goes_as_a_whole() {
    let cached = PreviewCache::new(part_bytes() * 4);
    let [one, two, three, four] = [(); 4].map(|()| cached.begin());
    assert!(keep(&cached, one, "a", 0) && keep(&cached, one, "a", 1_024));
    assert!(keep(&cached, two, "b", 0) && keep(&cached, two, "b", 1_024));
    assert!(cached.find(three, &key("a"), 0, &[1]).is_some());
    assert!(keep(&cached, four, "c", 0));
    assert_eq!(
        [has(&cached, "a", 0), has(&cached, "a", 1_024), has(&cached, "b", 0), has(&cached, "b", 1_024)],
        [true, true, false, false]
    );
    assert_eq!((cached.usage().dropped, cached.usage().bytes), (1, part_bytes() * 3));
}

#[test]
fn a_preview_drives_out_nothing_that_it_or_a_later_one_asks_for() {
    let cached = PreviewCache::new(part_bytes() * 2);
    let (early, late) = (cached.begin(), cached.begin());
    assert!(keep(&cached, late, "a", 0) && keep(&cached, early, "b", 0));
    assert!(!keep(&cached, early, "b", 1_024), "the later one keeps its field");
    assert!(!keep(&cached, early, "c", 0), "and it keeps its other one");
    assert!(has(&cached, "a", 0) && has(&cached, "b", 0));
    assert!(keep(&cached, late, "c", 0));
    assert_eq!([has(&cached, "a", 0), has(&cached, "b", 0)], [true, false]);
}

#[test]
fn a_part_fits_the_versions_that_it_was_read_of_and_no_others() {
    let cached = PreviewCache::new(1 << 20);
    let asking = cached.begin();
    let versions: Arc<[u32]> = [1, 1, 4].into();
    drop(cached.keep(asking, &key("a"), 0, &versions, column()));
    assert!(cached.find(asking, &key("a"), 0, &[1, 1, 4]).is_some());
    for others in [&[1, 2, 4][..], &[1, 1], &[1, 1, 4, 1], &[]] {
        assert!(cached.find(asking, &key("a"), 0, others).is_none(), "{others:?}");
    }
    let other_form = FieldKey { form: (FieldType::Text, false), ..key("a") };
    assert!(cached.find(asking, &other_form, 0, &[1, 1, 4]).is_none(), "a module changed its field");
    let other_layout = FieldKey { layout: 1, ..key("a") };
    assert!(
        cached.find(asking, &other_layout, 0, &[1, 1, 4]).is_none(),
        "the rows of another partition are other records"
    );
    // The current segment replaces the previous one.
    let now: Arc<[u32]> = [1, 2, 4].into();
    drop(cached.keep(asking, &key("a"), 0, &now, column()));
    assert!(cached.find(asking, &key("a"), 0, &[1, 1, 4]).is_none());
    assert_eq!(cached.usage().bytes, part_bytes() + 8);
}

/// A row of a field that is a list of texts; `None` if nothing is recorded.
type ListRow = Option<Vec<Option<String>>>;

fn bits(of: impl Iterator<Item = bool>) -> Vec<u8> {
    let mut bitmap = Bitmap::default();
    of.for_each(|is_set| bitmap.push(is_set));
    bitmap.finish()
}

fn lists(rows: &[ListRow]) -> Vec<Column> {
    let (mut offsets, mut text_offsets, mut bytes) = (vec![0], vec![0], Vec::new());
    let items: Vec<&Option<String>> = rows.iter().flatten().flatten().collect();
    for row in rows {
        offsets.push(offsets.last().unwrap() + row.as_ref().map_or(0, Vec::len) as u32);
    }
    for item in &items {
        bytes.extend_from_slice(item.as_deref().unwrap_or_default().as_bytes());
        text_offsets.push(bytes.len() as u32);
    }
    let column = |path: &str, valid, values| Column { space: RowSpace::Me, path: path.to_owned(), valid, values };
    vec![
        column("list", bits(rows.iter().map(Option::is_some)), ColumnValues::Lists(offsets)),
        column(
            "list[].text",
            bits(items.iter().map(|item| item.is_some())),
            ColumnValues::Texts { offsets: text_offsets, bytes },
        ),
    ]
}

/// Decodes the rows from columns that [`lists`] encoded.
fn rows(columns: &[Column]) -> Vec<ListRow> {
    let [list, items] = columns else { panic!("a list and its items") };
    let (ColumnValues::Lists(offsets), ColumnValues::Texts { offsets: ends, bytes }) = (&list.values, &items.values)
    else {
        panic!("texts of a list")
    };
    let text = |at: usize| {
        let text = String::from_utf8(bytes[ends[at] as usize..ends[at + 1] as usize].to_vec()).unwrap();
        bit(&items.valid, at).then_some(text)
    };
    let row = |(row, ends): (usize, &[u32])| {
        bit(&list.valid, row).then(|| (ends[0] as usize..ends[1] as usize).map(text).collect())
    };
    offsets.windows(2).enumerate().map(row).collect()
}

fn any_rows() -> impl Strategy<Value = Vec<ListRow>> {
    vec(option::of(vec(option::of("[aé]{0,3}"), 0..4)), 1..20)
}

proptest! {
    #[test]
    fn rows_picked_out_of_parts_are_the_rows_of_the_parts(
        parts in vec(any_rows(), 1..4),
        runs in vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..8),
    ) {
        let columns: Vec<Vec<Column>> = parts.iter().map(|part| lists(part)).collect();
        let mut picked = Picked::like(&columns[0]);
        let mut expected = Vec::new();
        for (part, one, other) in runs {
            let (part, columns) = (part.get(&parts), &columns[part.index(parts.len())]);
            let (one, other) = (one.index(part.len() + 1), other.index(part.len() + 1));
            let range = one.min(other)..one.max(other);
            picked.add(columns, range.clone()).unwrap();
            expected.extend_from_slice(&part[range]);
        }
        let mut found = Vec::new();
        picked.finish(RowSpace::Members, &mut found);
        prop_assert!(found.iter().all(|column| column.space == RowSpace::Members));
        prop_assert_eq!(rows(&found), expected);
    }
}
