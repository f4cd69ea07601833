"""Runs SQL queries on the files of `daftar export --format parquet`: python3 ask.py FOLDER questions.sql [NUMBER]"""

import pathlib
import re
import sys

import duckdb

folder, questions = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).read_text(encoding="utf-8")
wanted = sys.argv[3] if len(sys.argv) > 3 else None

register = duckdb.connect()
for file in sorted(folder.glob("*.parquet")):
    register.read_parquet(str(file)).create_view(file.stem)

# Each question begins with a line `-- 1. Title`.
_, *parts = re.split(r"^-- (\d+)\. (.*)$", questions, flags=re.MULTILINE)
for number, title, statement in zip(parts[::3], parts[1::3], parts[2::3]):
    if wanted in (None, number):
        answer = register.sql(statement)
        print(f"{number}. {title}")
        for row in [answer.columns, *answer.fetchall()]:
            print("  " + " | ".join("" if value is None else str(value) for value in row))
