"""Writes the numbers of people and of women in each district, as a table for QGIS.

    people_table.py FILE.csv

Takes the server and the client from DAFTAR_URL, CLIENT_ID and CLIENT_SECRET.
"""

import csv
import os
import sys
from collections import Counter

from daftar_client import Daftar

FEMALE = "urn:iso:std:iso:5218#2"


def individuals(daftar, fields):
    """All individuals, a hundred per page. Paging neither repeats nor skips records, even with concurrent changes."""
    place = f"/Individual?_count=100&_elements={fields}"
    while place:
        answer = daftar.call("GET", place)
        if answer.status != 200:
            sys.exit(f"{answer.status}: {answer.json()['detail']}")
        page = answer.json()
        yield from page["data"]
        place = page["links"]["next"]


def main():
    environment = os.environ
    daftar = Daftar(environment["DAFTAR_URL"], environment["CLIENT_ID"], environment["CLIENT_SECRET"], "token.json")
    people, women = Counter(), Counter()
    for person in individuals(daftar, "gender,address"):
        addresses = person.get("address") or [{}]
        district = addresses[0].get("district") or "not recorded"
        people[district] += 1
        women[district] += person.get("gender", {}).get("uri") == FEMALE
    with open(sys.argv[1], "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["district", "people", "women"])
        table.writerows([district, people[district], women[district]] for district in sorted(people))
    print(f"{sum(people.values())} people in {len(people)} districts")


main()
