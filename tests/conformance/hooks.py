"""Hooks of the fuzzer for facts that are not in the document."""

import schemathesis

# Codes of problems that report a body of another shape than documented.
SHAPE = {
    "wrong_type",
    "unknown_field",
    "required",
    "empty",
    "control_character",
    "unknown_value",
    "too_many",
}


@schemathesis.check
def shape_is_told_whole(ctx, response, case):
    """A body of the right shape is never refused for its shape."""
    mode = case.meta.generation.mode if case.meta is not None else None
    if response.status_code != 422 or mode is None or mode.value != "positive":
        return
    problems = [one for one in response.json().get("errors", []) if one["code"] in SHAPE]
    if problems:
        raise AssertionError(f"a body of the documented shape is rejected for its shape: {problems}")


def shorten_texts(filters):
    """Leaves few words in the texts of a filter."""
    for name in ("name", "address"):
        texts = filters.get(name)
        if isinstance(texts, (list, str)) and len("".join(texts)) > 40:
            filters[name] = ["dia"]


@schemathesis.hook
def before_call(ctx, case, kwargs):
    """What no schema can say: a cursor is had from an answer alone, a key and its reverse exclude each other in `_sort`, and all
    texts of one filter together have at most 50 words. What the document says in words: with `explain`, and in an evidence bundle, there are at most 100 subjects."""
    mode = case.meta.generation.mode if case.meta is not None else None
    if mode is None or mode.value != "positive":
        return
    # The fuzzer takes the quotation marks of an entity tag for those of JSON.
    names = ["If-Match"] if case.method.upper() == "GET" else ["If-Match", "If-None-Match"]
    for name in names:
        tag = (case.headers or {}).get(name)
        if tag is not None and tag != "*" and not str(tag).startswith(('"', 'W/"')):
            case.headers[name] = '"1"'
    is_short = isinstance(case.body, dict) and (case.body.get("explain") is True or case.path.endswith("/$evidence"))
    if is_short and isinstance(case.body.get("subjects"), list):
        case.body["subjects"] = case.body["subjects"][:100]
    if isinstance(case.body, dict) and isinstance(case.body.get("filter"), dict):
        shorten_texts(case.body["filter"])
    if not case.query:
        return
    case.query.pop("_cursor", None)
    shorten_texts(case.query)
    keys = case.query.get("_sort")
    if isinstance(keys, str):
        keys = keys.split(",")
    if isinstance(keys, list):
        first = {}
        for key in keys:
            first.setdefault(str(key).lstrip("-"), key)
        case.query["_sort"] = ",".join(map(str, first.values()))
