// A vocabulary pack in C++: health facilities. Three kinds are listed; a facility is a number with a check digit, such as
// `H-40217-1`: the letter of its kind, five digits, and the check digit of ISO/IEC 7064, MOD 11,10, so that a digit that was
// mistyped and most swapped digits are found before a record is stored.
//
// There is no library, no exception, no run-time type and no constructor that runs; an instance lives for one request.
#include "daftar.h"

namespace {

constexpr text operator""_t(const char *at, decltype(sizeof 0) bytes) { return {at, u32(bytes)}; }

template <typename Item, u32 count> constexpr list list_of(const Item (&items)[count]) { return {items, count}; }

bool operator==(text a, text b) {
    if (a.bytes != b.bytes) return false;
    for (u32 i = 0; i < a.bytes; i++)
        if (a.at[i] != b.at[i]) return false;
    return true;
}

constexpr text urn = "urn:example:health-facility"_t;

// A kind of facility: its code, the letter of its facilities, and its label.
struct kind {
    text code;
    char letter;
    text label;
};
constexpr kind kinds[] = {
    {"hospital"_t, 'H', "Hospital"_t},
    {"health-centre"_t, 'C', "Health centre"_t},
    {"dispensary"_t, 'D', "Dispensary"_t},
};
constexpr u32 listed = sizeof kinds / sizeof kinds[0];

// The memory of one call, which are its arguments and its result; `release` gives it back.
class arena {
    alignas(8) char bytes[16384] = {};
    u32 used = 0;

public:
    void *allocate(u32 size, u32 align) {
        u32 at = (used + align - 1) & ~(align - 1);
        if (at > sizeof bytes || size > sizeof bytes - at) __builtin_trap();
        used = at + size;
        return bytes + at;
    }
    template <typename Item> Item *items(u32 count) {
        Item *all = static_cast<Item *>(allocate(count * sizeof(Item), alignof(Item)));
        for (u32 i = 0; i < count; i++) all[i] = Item{};
        return all;
    }
    template <typename Item> Item *one(const Item &value) {
        Item *at = items<Item>(1);
        *at = value;
        return at;
    }
    void release() { used = 0; }
} memory;

list labels(text english) { return {memory.one(localized_text{"en"_t, english}), 1}; }

concept facility(text code, text label, list parents) {
    concept made{};
    made.code = code;
    made.selectable = 1;
    made.parents = parents;
    made.labels = labels(label);
    return made;
}

// The check digit of ISO/IEC 7064, MOD 11,10.
u32 check_digit(const char *digits, u32 count) {
    u32 product = 10;
    for (u32 i = 0; i < count; i++) {
        u32 sum = (product + u32(digits[i] - '0')) % 10;
        product = (sum == 0 ? 10 : sum) * 2 % 11;
    }
    return (11 - product) % 10;
}

// `H-40217-1` in either case: whether it has this form.
bool has_form(text code) {
    if (code.bytes != 9 || code.at[1] != '-' || code.at[7] != '-') return false;
    for (u32 i = 2; i < 9; i++)
        if (i != 7 && (code.at[i] < '0' || code.at[i] > '9')) return false;
    return true;
}

const kind *kind_of(char letter) {
    for (const kind &one : kinds)
        if (one.letter == letter || one.letter + 'a' - 'A' == letter) return &one;
    return nullptr;
}

const resolve_answer *refuse(resolve_error kind, text message) {
    auto *answer = memory.items<resolve_answer>(1);
    answer->is_error = ERROR;
    answer->error.kind = u8(kind);
    answer->error.message = message;
    return answer;
}

const page_answer *refuse(page_error error) {
    auto *answer = memory.items<page_answer>(1);
    answer->is_error = ERROR;
    answer->error = u8(error);
    return answer;
}

} // namespace

void *cabi_realloc(void *old, u32 old_bytes, u32 align, u32 new_bytes) {
    // No reallocation: the host allocates once per argument.
    if (old != nullptr || old_bytes != 0) __builtin_trap();
    return memory.allocate(new_bytes, align);
}

void concepts_done(const page_answer *) { memory.release(); }
void resolve_done(const resolve_answer *) { memory.release(); }

const list *describe() {
    static constexpr text languages[] = {"en"_t};
    auto *only = memory.items<vocabulary>(1);
    only->namespace_uri = urn;
    only->name = "Health facilities"_t;
    only->domain = "Health"_t;
    only->version = "1.0.0"_t;
    only->source = "Written for this example"_t;
    only->licence = "CC0-1.0"_t;
    only->attribution = "The example of a plugin in C++"_t;
    only->default_language = "en"_t;
    only->languages = list_of(languages);
    only->hierarchical = 1;
    only->completeness = COMPLETENESS_FULL;
    only->open = 1;
    only->system = 1;
    only->concept_count = listed;
    return memory.one(list{only, 1});
}

const list *concept_groups() {
    static constexpr list none{};
    return &none;
}

const page_answer *concepts(const char *namespace_at, u32 namespace_bytes, u32 cursor, u32 limit) {
    if (!(text{namespace_at, namespace_bytes} == urn)) return refuse(PAGE_UNKNOWN_NAMESPACE);
    if (cursor >= listed) return refuse(PAGE_INVALID_CURSOR);
    u32 left = listed - cursor, count = left < limit ? left : limit;
    auto *page = memory.items<concept>(count);
    for (u32 i = 0; i < count; i++) page[i] = facility(kinds[cursor + i].code, kinds[cursor + i].label, {});
    auto *answer = memory.items<page_answer>(1);
    answer->page.concepts = {page, count};
    answer->page.next = {count < left, cursor + count};
    return answer;
}

const resolve_answer *resolve(const char *namespace_at, u32 namespace_bytes, const char *code_at, u32 code_bytes) {
    text code{code_at, code_bytes};
    if (!(text{namespace_at, namespace_bytes} == urn)) return refuse(RESOLVE_UNKNOWN_NAMESPACE, {});
    const kind *found = has_form(code) ? kind_of(code_at[0]) : nullptr;
    if (!found) {
        return refuse(RESOLVE_MALFORMED, "a facility is `H`, `C` or `D`, five digits and a check digit, as `H-40217-1` is"_t);
    }
    if (check_digit(code_at + 2, 5) != u32(code_at[8] - '0')) {
        return refuse(RESOLVE_MALFORMED, "the check digit does not match: compare each digit with the document"_t);
    }
    // The normal spelling has the letter in upper case; the label is the kind and the five digits.
    char *spelling = memory.items<char>(code.bytes), *label = memory.items<char>(found->label.bytes + 6);
    for (u32 i = 0; i < code.bytes; i++) spelling[i] = i == 0 ? found->letter : code_at[i];
    for (u32 i = 0; i < found->label.bytes; i++) label[i] = found->label.at[i];
    label[found->label.bytes] = ' ';
    for (u32 i = 0; i < 5; i++) label[found->label.bytes + 1 + i] = code_at[2 + i];

    auto *answer = memory.items<resolve_answer>(1);
    answer->found = facility({spelling, code.bytes}, {label, found->label.bytes + 6}, {&found->code, 1});
    return answer;
}
