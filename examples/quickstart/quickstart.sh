#!/bin/sh
# The first calls of an API client, with curl alone.
#
#   quickstart.sh URL CLIENT_ID CLIENT_SECRET
#
# `daftar demo` prints all three. The client needs individual:all and eligibility:read.
set -eu
if [ $# -ne 3 ]; then
    echo "usage: $0 URL CLIENT_ID CLIENT_SECRET" >&2
    exit 2
fi
api="$1/api/v2"
number="QS-$(date +%s)-$$"

# A token for client credentials; it is valid for a day, and the limit is 5 per minute and IP address.
token=$(curl -sS -f -u "$2:$3" -d grant_type=client_credentials "$api/oauth/token" |
    sed 's/.*"access_token":"\([^"]*\)".*/\1/')

call() {
    curl -sS -f -H "Authorization: Bearer $token" -H 'Content-Type: application/json' "$@"
    echo
}

echo "# register a person"
call -d '{
  "identifier": [{"system": "urn:svc:vocab:id-type#national_id", "value": "'"$number"'"}],
  "name": {"given": "Amina", "family": "Diallo"},
  "gender": "urn:iso:std:iso:5218#2",
  "birth_date": "1961-03-08",
  "country": "urn:iso:std:iso:3166-1#SN"
}' "$api/Individual"

echo "# read the person back; the # of the identifier's system is written %23 in a URL"
call "$api/Individual/urn:svc:vocab:id-type%23national_id%7C$number"

echo "# find women of that name born before 1966"
call "$api/Individual?name=diallo%20amina&gender=urn:iso:std:iso:5218%232&birth_date=lt1966-01-01&_count=1"

echo "# ask a rule about the person"
call -d '{
  "expression": "is_female(me) && age_years(me.birth_date) >= 60",
  "as_of": "2026-01-01",
  "subjects": ["Individual/urn:svc:vocab:id-type#national_id|'"$number"'"]
}' "$api/Eligibility/\$evaluate"
