//! Days and instants are equal in the database and here, and survive a round trip.

use jiff::civil::date;
use tokio_postgres::types::ToSql;

use super::super::time::{Day, Instant};
use super::database::Database;
use daftar_domain::calendar::{YEAR_MAX, YEAR_MIN};

#[test]
fn days_and_instants_are_those_of_the_database() {
    let database = Database::new();
    let read = |day: Day, instant: Instant| {
        database.wait(async {
            let connection = database.database.connection().await.unwrap();
            let statement =
                "SELECT $1::date, $2::timestamptz, $1::date::text, ($2::timestamptz AT TIME ZONE 'UTC')::text";
            let row = connection
                .object()
                .unwrap()
                .query_one(statement, &[&day as &(dyn ToSql + Sync), &instant])
                .await
                .unwrap();
            (row.get::<_, Day>(0), row.get::<_, Instant>(1), [row.get::<_, String>(2), row.get(3)])
        })
    };
    for day in [
        date(1, 1, 1),
        date(YEAR_MIN, 1, 1),
        date(1969, 12, 31),
        date(2000, 2, 29),
        date(YEAR_MAX, 12, 31),
        // The last day that begins within the range of instants.
        date(9999, 12, 30),
    ] {
        let instant = day.to_zoned(jiff::tz::TimeZone::UTC).unwrap().timestamp().as_millisecond() + 7;
        let (day_there, instant_there, texts) = read(Day::from(day), Instant(instant));
        assert_eq!((day_there, instant_there), (Day::from(day), Instant(instant)));
        assert_eq!(texts, [day.to_string(), format!("{day} 00:00:00.007")]);
    }
    for (day, instant, text) in [(Day::FIRST, Instant::FIRST, "-infinity"), (Day::LAST, Instant::LAST, "infinity")] {
        assert_eq!(read(day, instant), (day, instant, [text.to_owned(), text.to_owned()]));
    }
    // Bounds beyond the calendar of PostgreSQL, next to the ends.
    let (day, instant, _) = read(Day(i32::MIN + 1), Instant(i64::MIN + 1));
    assert_eq!((day, instant), (Day::FIRST, Instant::FIRST));
    let (day, instant, _) = read(Day(i32::MAX - 1), Instant(i64::MAX - 1));
    assert_eq!((day, instant), (Day::LAST, Instant::LAST));
    for ms in [9_223_371_331_200_000 + 946_684_800_000 - 1, 9_223_371_331_200_000 + 946_684_800_000] {
        let is_within = ms < 9_223_371_331_200_000 + 946_684_800_000;
        assert_eq!(read(Day(0), Instant(ms)).1, if is_within { Instant(ms) } else { Instant::LAST });
    }
}
