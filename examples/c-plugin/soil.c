/* A vocabulary pack in C: the acidity of soils. Three codes are listed, and codes such as `ph:6.5` follow a grammar.
 *
 * There is no C library and no heap; an instance lives for one request.
 */
#include "daftar.h"

#define NAMESPACE "urn:example:soil"

static const text english[] = { TEXT("en") };

static const vocabulary vocabularies[] = { {
    .namespace_uri = TEXT(NAMESPACE),
    .name = TEXT("Soil reaction"),
    .domain = TEXT("Agriculture"),
    .version = TEXT("1.0.0"),
    .source = TEXT("Written for this example"),
    .licence = TEXT("CC0-1.0"),
    .attribution = TEXT("The example of a plugin in C"),
    .default_language = TEXT("en"),
    .languages = LIST(english),
    .hierarchical = 1,
    .completeness = COMPLETENESS_FULL,
    .open = 1,
    .system = 1,
    .concept_count = 3,
} };

static const localized_text acid[] = { { TEXT("en"), TEXT("Acid soil") } };
static const localized_text neutral[] = { { TEXT("en"), TEXT("Neutral soil") } };
static const localized_text alkaline[] = { { TEXT("en"), TEXT("Alkaline soil") } };

static const concept listed[] = {
    { .code = TEXT("acid"), .selectable = 1, .labels = LIST(acid) },
    { .code = TEXT("neutral"), .selectable = 1, .labels = LIST(neutral) },
    { .code = TEXT("alkaline"), .selectable = 1, .labels = LIST(alkaline) },
};
#define LISTED (sizeof(listed) / sizeof(listed[0]))

/* The memory for the arguments of one call, which are a namespace and a code. */
static char arguments[8192];
static u32 used;

void *cabi_realloc(void *old, u32 old_bytes, u32 align, u32 new_bytes) {
    (void)old;
    u32 at = (used + align - 1) & ~(align - 1);
    /* No reallocation: the host allocates once per argument. */
    if (old_bytes != 0 || at > sizeof arguments || new_bytes > sizeof arguments - at) __builtin_trap();
    used = at + new_bytes;
    return arguments + at;
}

void concepts_done(const page_answer *answer) {
    (void)answer;
    used = 0;
}

void resolve_done(const resolve_answer *answer) {
    (void)answer;
    used = 0;
}

static int equal(const char *at, u32 bytes, const char *expected, u32 expected_bytes) {
    if (bytes != expected_bytes) return 0;
    for (u32 i = 0; i < bytes; i++)
        if (at[i] != expected[i]) return 0;
    return 1;
}

static int is_ours(const char *at, u32 bytes) { return equal(at, bytes, NAMESPACE, sizeof NAMESPACE - 1); }

const list *describe(void) {
    static const list all = LIST(vocabularies);
    return &all;
}

const list *concept_groups(void) {
    static const list none = NOTHING;
    return &none;
}

const page_answer *concepts(const char *namespace_at, u32 namespace_bytes, u32 cursor, u32 limit) {
    static page_answer answer;
    if (!is_ours(namespace_at, namespace_bytes)) {
        answer.is_error = ERROR;
        answer.error = PAGE_UNKNOWN_NAMESPACE;
    } else if (cursor >= LISTED) {
        answer.is_error = ERROR;
        answer.error = PAGE_INVALID_CURSOR;
    } else {
        u32 left = LISTED - cursor, count = left < limit ? left : limit;
        answer.is_error = OK;
        answer.page.concepts.at = listed + cursor;
        answer.page.concepts.items = count;
        answer.page.next.is_some = count < left;
        answer.page.next.value = cursor + count;
    }
    return &answer;
}

static const resolve_answer *refuse(u8 kind, const char *at, u32 bytes) {
    static resolve_answer answer;
    answer.is_error = ERROR;
    answer.error.kind = kind;
    answer.error.message.at = at;
    answer.error.message.bytes = bytes;
    return &answer;
}

/* `ph:` and a number from 0.0 to 14.0 with one place: its tenths, or -1. */
static int tenths(const char *at, u32 bytes) {
    if (bytes < 6 || bytes > 7 || !equal(at, 3, "ph:", 3) || at[bytes - 2] != '.') return -1;
    int value = 0;
    for (u32 i = 3; i < bytes; i++) {
        if (i == bytes - 2) continue;
        if (at[i] < '0' || at[i] > '9') return -1;
        value = 10 * value + (at[i] - '0');
    }
    /* `ph:06.5` would be a second spelling of `ph:6.5`. */
    return value > 140 || (bytes == 7 && at[3] == '0') ? -1 : value;
}

const resolve_answer *resolve(const char *namespace_at, u32 namespace_bytes, const char *code_at, u32 code_bytes) {
    static const char help[] = "a soil's reaction is `ph:` and a number from 0.0 to 14.0, as `ph:6.5` is";
    static resolve_answer answer;
    static text code, parent;
    static char words[] = "Soil of pH 00.0";
    static localized_text label = { TEXT("en"), NOTHING };

    if (!is_ours(namespace_at, namespace_bytes)) return refuse(RESOLVE_UNKNOWN_NAMESPACE, 0, 0);
    int value = tenths(code_at, code_bytes);
    if (value < 0) return refuse(RESOLVE_MALFORMED, help, sizeof help - 1);

    for (u32 i = 3; i < code_bytes; i++) words[11 + i - 3] = code_at[i];
    label.value.at = words;
    label.value.bytes = 11 + code_bytes - 3;
    code.at = code_at;
    code.bytes = code_bytes;
    parent = listed[value < 65 ? 0 : value <= 75 ? 1 : 2].code;

    answer.is_error = OK;
    answer.found.code = code;
    answer.found.selectable = 1;
    answer.found.parents.at = &parent;
    answer.found.parents.items = 1;
    answer.found.labels.at = &label;
    answer.found.labels.items = 1;
    return &answer;
}
